"""Generates outputs for many requests at once; requests may be added and may end at any step.

    decoder = Decoder(model, special, paths=64)
    tickets = decoder.admit(requests)            # they begin when there is room for them
    while not decoder.idle:
        for event in decoder.step(): …           # one token for every live path

A step first reads new requests (all their inputs, and at most `prefill_tokens` tokens of long prompts), then runs the
model once for all paths that are ready, then lets each search choose tokens. Requests with the same search are
processed together. The tokens of a request do not depend on the other requests: all memory of the model belongs to
paths and sources and moves with them (`core.state`).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence

import torch
from torch import Tensor

from regard.core.contracts import Decodable
from regard.core.errors import UsageError
from regard.decoding.candidates import Candidates
from regard.decoding.constraints import follow_grammars
from regard.decoding.coverage import add_cover
from regard.decoding.event import Event
from regard.decoding.group import Group
from regard.decoding.inputs import joined
from regard.decoding.paths import Paths
from regard.decoding.reader import Reader
from regard.decoding.request import Request, SpecialTokens, check_request
from regard.decoding.result import Hypothesis
from regard.decoding.seat import Seat
from regard.decoding.slots import Slots


class Decoder:
    """Holds at most `paths` paths of at most `sources` requests at a time; by default `sources` equals `paths`.

    While other requests run, waiting requests begin when there is room for `together` of them (or for all that wait),
    since inputs are read faster together than one by one.
    """

    def __init__(
        self,
        model: Decodable,
        special: SpecialTokens,
        *,
        paths: int = 64,
        sources: int | None = None,
        capacity: int = 16,
        together: int = 1,
    ) -> None:
        self._model, self._special, self._together = model, special, together
        sources = paths if sources is None else sources
        self._state = model.new_state(sources=sources, paths=paths, capacity=capacity)
        self._device = self._state.lengths_P.device
        self._reader = Reader(model, self._state)
        self._slots, self._sources = Slots(paths), Slots(sources)
        self._waiting: deque[tuple[int, Request]] = deque()
        self._seats: dict[int, Seat] = {}
        self._groups: dict[str, Group] = {}
        self._requests: dict[int, Request] = {}
        self._grammars = self._deadlines = False
        self._next = 0

    @property
    def idle(self) -> bool:
        """Whether no request is left."""
        return not self._requests

    def admit(self, requests: Sequence[Request]) -> list[int]:
        """Return a ticket for each request. Requests begin in this order, each as soon as there is room."""
        for row, request in enumerate(requests):
            check_request(request, self._model, self._special, row)
            if request.width > self._slots.size:
                raise UsageError(
                    "a request needs more paths than the decoder has",
                    got=f"{request.width}, the beam's width or the number of samples",
                    expected=f"at most {self._slots.size}",
                )
        self._grammars |= any(request.grammar is not None for request in requests)
        self._deadlines |= any(request.deadline is not None for request in requests)
        tickets = list(range(self._next, self._next + len(requests)))
        self._next += len(requests)
        for ticket, request in zip(tickets, requests, strict=True):
            self._requests[ticket] = request
            self._waiting.append((ticket, request))
        return tickets

    @torch.inference_mode()
    def cancel(self, ticket: int) -> None:
        """Forget a request. A ticket of no current request is ignored."""
        if self._requests.pop(ticket, None) is not None:
            self._leave([ticket])

    @torch.inference_mode()
    def step(self, prefill_tokens: int = 512) -> list[Event]:
        """Generate one more token for every live path, and read at most `prefill_tokens` tokens of long prompts."""
        events = [*self._expire(), *self._seat()]
        ready = self._read_prompts(prefill_tokens)
        live = [group.paths for group in self._groups.values() if group.paths is not None]
        short = [seat for seat in self._seats.values() if seat.left == 1]
        if live or short:
            self._run_short(live, short)
        ready += short
        for seat in ready:
            del self._seats[seat.ticket]
            seat.group.join(Paths.start(seat.request.prompt, self._device, seat.cover_K, **seat.facts))
        for group in self._groups.values():
            if group.paths is not None:
                events += self._choose(group)
        done = [event.ticket for event in events if event.results is not None]
        for ticket in done:
            self._requests.pop(ticket, None)
        self._leave(done)
        return events

    def _choose(self, group: Group) -> list[Event]:
        """Advance the search of a group, and copy the state along with its paths."""
        before = group.paths
        assert before is not None
        index_N, longer = group.advance(self._candidates(group, before))
        longer, forks = self._slotted(before, index_N, longer)
        if forks:
            self._state.fork(*(torch.tensor(part, device=self._device) for part in zip(*forks, strict=True)))
        group.paths = longer if len(longer) else None
        events = [] if group.competes else [
            Event(ticket, token, copy)
            for ticket, token, copy in zip(
                longer.ticket_N.tolist(), longer.last_N.tolist(), longer.copy_N.tolist(), strict=True
            )
        ]  # fmt: skip
        done = sorted(set(before.ticket_N.tolist()) - set(longer.ticket_N.tolist()))
        return [*events, *(Event(ticket, results=group.finished.take(ticket)) for ticket in done)]

    def _candidates(self, group: Group, paths: Paths) -> Candidates:
        if group.few and not self._grammars:
            return self._reader.best(paths, group.count, group.forbidden)
        log_probs_NV = self._reader.log_probs(paths, group.logit_penalty)
        follow_grammars(log_probs_NV, paths, self._requests)
        return group.candidates(log_probs_NV)

    def _slotted(self, before: Paths, index_N: Tensor, longer: Paths) -> tuple[Paths, list[tuple[int, int]]]:
        """The new paths with their slots, and the slots to copy, as pairs (from, to)."""
        parents = index_N.tolist()
        if len(set(parents)) == len(parents):
            return longer, []
        chosen, forks = self._slots.continued(before.slot_N[index_N].tolist(), longer.ticket_N.tolist())
        return self._in_order(longer.having("slot", torch.tensor(chosen, device=self._device))), forks

    def _in_order(self, paths: Paths) -> Paths:
        """The paths sorted by slot, with those of a request adjacent, so that a step's rows are consecutive slots."""
        slots = paths.slot_N.tolist()
        if not self._slots.scattered:
            order = sorted(range(len(slots)), key=slots.__getitem__)
        else:
            firsts = [self._slots[ticket][0] for ticket in paths.ticket_N.tolist()]
            order = sorted(range(len(slots)), key=lambda n: (firsts[n], slots[n]))
        return paths if order == list(range(len(slots))) else paths.at(torch.tensor(order, device=self._device))

    def _leave(self, tickets: Sequence[int]) -> None:
        """Free the slots of these requests, and move paths and sources from the end into the gaps."""
        if not tickets:
            return
        gone = set(tickets)
        self._waiting = deque(entry for entry in self._waiting if entry[0] not in gone)
        self._seats = {ticket: seat for ticket, seat in self._seats.items() if ticket not in gone}
        for group in self._groups.values():
            group.drop(gone)
        moves = self._slots.release(gone)
        if moves:
            old, new = (torch.tensor(list(part), device=self._device) for part in (moves, moves.values()))
            self._state.fork(old, new)
            for group in self._groups.values():
                if group.paths is not None:
                    slots = [moves.get(slot, slot) for slot in group.paths.slot_N.tolist()]
                    group.paths = self._in_order(group.paths.having("slot", torch.tensor(slots, device=self._device)))
            for seat in self._seats.values():
                seat.facts["slot"] = moves.get(seat.facts["slot"], seat.facts["slot"])
        moved = self._sources.release(gone)
        if moved:
            self._state.move_sources(
                *(torch.tensor(list(part), device=self._device) for part in (moved, moved.values()))
            )
        self._groups = {key: group for key, group in self._groups.items() if group.busy or self._awaited(group)}

    def _awaited(self, group: Group) -> bool:
        return any(seat.group is group for seat in self._seats.values())

    def _expire(self) -> list[Event]:
        """End the requests that are past their deadline, with the outputs that they have."""
        if not self._deadlines:
            return []
        now, events = time.monotonic(), []
        for ticket, request in list(self._requests.items()):
            if request.deadline is None or request.deadline > now:
                continue
            results = next(filter(None, (group.give_up(ticket) for group in self._groups.values())), None)
            del self._requests[ticket]
            self._leave([ticket])
            events.append(Event(ticket, results=results or [_only_prefix(request)]))
        return events

    def _seat(self) -> list[Event]:
        """Begin waiting requests while there is room."""
        events, new = list[Event](), []
        begin = min(self._together, len(self._waiting))
        if self._sources.used and not self._sources.fits(begin):
            return events
        while self._waiting and self._slots.fits(self._waiting[0][1].width) and self._sources.fits(1):
            ticket, request = self._waiting.popleft()
            limit = request.limit(getattr(self._model, "longest", None))
            if len(request.prefix) >= limit:
                events.append(Event(ticket, results=[_only_prefix(request)]))
                continue
            slot = self._slots.take(ticket, request.width)[0]
            self._sources.take(ticket, 1)
            facts = {
                "ticket": ticket, "slot": slot, "number": request.number, "seed": request.seed(), "limit": limit,
            }  # fmt: skip
            key = request.search.model_dump_json(exclude={"seed"})
            if key not in self._groups:
                self._groups[key] = Group(request.search, self._special)
            self._seats[ticket] = Seat(ticket, request, self._groups[key], facts)
            new.append(ticket)
        if new:
            self._begin(new)
        return events

    def _begin(self, tickets: Sequence[int]) -> None:
        paths_N = torch.tensor([self._seats[ticket].facts["slot"] for ticket in tickets], device=self._device)
        sources_N = torch.tensor([self._sources[ticket][0] for ticket in tickets], device=self._device)
        self._state.begin(paths_N, sources_N)
        self._model.read(joined([self._requests[ticket].inputs for ticket in tickets]), self._state, sources_N)

    def _read_prompts(self, budget: int) -> list[Seat]:
        """Read prompts of several tokens, up to the budget; return the requests whose prompt is read completely."""
        chosen: list[tuple[Seat, int]] = []
        for seat in self._seats.values():
            if budget > 0 and seat.left > 1:
                chosen.append((seat, min(seat.left, budget)))
                budget -= chosen[-1][1]
        self._reader.forget()
        if not chosen:
            return []
        parts = [seat.request.prompt[seat.read : seat.read + count] for seat, count in chosen]
        seen_NK = self._reader.run_prompts(
            parts, [seat.facts["slot"] for seat, _ in chosen], any(seat.group.covers for seat, _ in chosen)
        )
        for row, (seat, count) in enumerate(chosen):
            seat.read += count
            self._cover(seat, seen_NK, row)
        return [seat for seat, _ in chosen if not seat.left]

    def _run_short(self, live: Sequence[Paths], short: Sequence[Seat]) -> None:
        """Read one token for every live path, and the last token of prompts that have only one left."""
        slots, tokens = [paths.slot_N for paths in live], [paths.last_N for paths in live]
        if short:
            slots.append(torch.tensor([seat.facts["slot"] for seat in short], device=self._device))
            tokens.append(torch.tensor([seat.request.prompt[-1] for seat in short], device=self._device))
        slot_N, order_N = torch.cat(slots).sort()
        covers = any(group.covers for group in self._groups.values())
        seen_NK = self._reader.run(torch.cat(tokens)[order_N, None], torch.ones_like(slot_N), slot_N, covers)
        if seen_NK is not None:
            self._add_cover(seen_NK, slot_N)
        for seat in short:
            seat.read += 1

    def _add_cover(self, seen_NK: Tensor, slot_N: Tensor) -> None:
        """Add the attention that inputs received in a step to the coverage of each path."""
        row_of = {slot: row for row, slot in enumerate(slot_N.tolist())}
        for seat in self._seats.values():
            if seat.left == 1 and seat.facts["slot"] in row_of:
                self._cover(seat, seen_NK, row_of[seat.facts["slot"]])
        for group in self._groups.values():
            if group.covers and group.paths is not None:
                rows = torch.tensor([row_of[slot] for slot in group.paths.slot_N.tolist()], device=self._device)
                group.cover(seen_NK[rows])

    def _cover(self, seat: Seat, seen_NK: Tensor | None, row: int) -> None:
        if seen_NK is not None and seat.group.covers:
            seat.cover_K = add_cover(seat.cover_K, seen_NK[row], seat.request)


def _only_prefix(request: Request) -> Hypothesis:
    """The output of a request that has generated nothing: its prefix."""
    return Hypothesis(list(request.prefix), 0.0, 0.0, finished=False)
