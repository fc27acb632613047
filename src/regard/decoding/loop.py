"""Generating with any model that keeps `core.contracts.Decodable`: read what is forced, then step until all rows end.

The part of the forced prefixes that all rows have is read in one step; beams and copies open after it, so that nothing
is read twice. Rows that are done leave the batch at once. All that a model remembers moves with its path through
`State`; the search looks into it only through the coverage site (`core.taps`), and only if coverage counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from regard.core import taps
from regard.core.contracts import Decodable
from regard.core.errors import RegardError, UsageError
from regard.core.search import Search
from regard.core.state import State
from regard.decoding import constraints
from regard.decoding.beam import Beam
from regard.decoding.finished import Finished
from regard.decoding.greedy import IndependentPaths, most_probable
from regard.decoding.paths import Paths, start
from regard.decoding.request import Request, make_request
from regard.decoding.result import Hypothesis
from regard.decoding.sampling import Draw


def decode(
    model: Decodable,
    inputs: Mapping[str, Tensor],
    search: Search,
    *,
    bos: int | Sequence[int],
    eos: int | Sequence[int],
    pad: int,
    lengths: Tensor | None = None,
    prefixes: Sequence[Sequence[int]] | None = None,
    rows: Sequence[int] | None = None,
    on_step: Callable[[Tensor], None] | None = None,
) -> list[list[Hypothesis]]:
    """The best `search.nbest` outputs of each row of `inputs`, finished ones first, then by score.

    There are fewer where fewer exist, and always one. `lengths` are those of the sources, and limit the outputs unless
    `max_length` does; `prefixes` are tokens that each output must begin with. `rows` numbers the rows for sampling
    (their place, by default): a row draws the same in any batch. `bos` may be given for each row, for models that go
    on with any text; `eos` and `pad` are −1 where there is none, and any of several `eos` ends an output. `on_step` is
    given the tokens [N,T] of all live paths after each step. Put the model into evaluation mode first; it is left in
    the mode it is in.
    """
    request = make_request(inputs, search, (bos, eos, pad), lengths, prefixes, rows)
    if not request.numbers:
        return []
    longest = getattr(model, "longest", None)
    if longest is not None:
        request = replace(request, limit_B=request.limit_B.clamp_max(longest))
    with torch.inference_mode():
        finished = Finished(request, search)
        reader = _Reader(model, inputs, request, search)
        _generate(reader, _strategy(request, search, finished), start(request), on_step)
    return finished.results


def _generate(
    reader: _Reader, strategy: Beam | IndependentPaths, paths: Paths, on_step: Callable[[Tensor], None] | None = None
) -> None:
    """Every turn makes the paths one token longer, and each row has a limit, so this ends."""
    while len(paths):
        log_probs_NV, paths = reader.log_probs(paths)
        index_N, longer = strategy.advance(log_probs_NV, paths)
        if len(longer):
            reader.follow(index_N, paths, longer)
            if on_step is not None:
                on_step(longer.tokens_NT)
        paths = longer


def _strategy(request: Request, search: Search, finished: Finished) -> Beam | IndependentPaths:
    if search.sample:
        return IndependentPaths(Draw(search, request), request, finished, copies=search.nbest)
    return (
        Beam(search.beam, request, finished) if search.beam > 1 else IndependentPaths(most_probable, request, finished)
    )


class _Reader:
    """The model with its state: what may come next, for paths that have grown by a token."""

    def __init__(self, model: Decodable, inputs: Mapping[str, Tensor], request: Request, search: Search) -> None:
        if search.coverage_penalty and model.coverage_site is None:
            raise UsageError(
                "this model has no attention that tells which inputs are used up", remedy="Set coverage_penalty to 0."
            )
        self._model, self._request, self._search = model, request, search
        self._site = model.coverage_site if search.coverage_penalty else None
        self._state: State = model.begin(inputs)
        self._room: Tensor | None = None

    def log_probs(self, paths: Paths) -> tuple[Tensor, Paths]:
        """Log-probabilities [N,V] with −inf where a token may not come, and the paths with their coverage."""
        new_NT = self._opening(paths) if self._room is None else paths.tokens_NT[:, -1:]
        if self._site is None:
            logits_NV = self._model.step(new_NT, self._state)
        else:
            with taps.watch(self._site) as record:
                logits_NV = self._model.step(new_NT, self._state)
            seen_NK = _attention(record, self._site)
            paths = replace(paths, cover_NK=seen_NK if paths.cover_NK is None else paths.cover_NK + seen_NK)
        return self._allow(self._log_softmax(logits_NV, paths), paths), paths

    def follow(self, index_N: Tensor, paths: Paths, longer: Paths) -> None:
        """Move the state to where the paths went."""
        if not torch.equal(paths.row_N, longer.row_N):
            self._state.select(index_N)  # rows left, or several paths opened: even what is alike within a row moves
        elif not torch.equal(index_N, torch.arange(len(index_N), device=index_N.device)):
            self._state.reorder(index_N)

    def _opening(self, paths: Paths) -> Tensor:
        return torch.cat([self._request.first_B[paths.row_N, None], paths.tokens_NT], 1)

    def _log_softmax(self, logits_NV: Tensor, paths: Paths) -> Tensor:
        dtype = torch.float64 if logits_NV.dtype == torch.float64 else torch.float32
        if self._room is None:
            self._request.check_tokens(logits_NV.shape[1])
        if self._room is None or len(self._room) < len(logits_NV):
            # Kept from step to step: fresh memory of this size takes longer to get than to fill.
            self._room = logits_NV.new_empty(logits_NV.shape, dtype=dtype)
        log_probs_NV = torch.log_softmax(logits_NV, -1, dtype, out=self._room[: len(logits_NV)])
        broken = log_probs_NV[:, 0].isnan()  # one that is not a number makes its whole row so
        if bool(broken.any()):
            raise RegardError(
                f"the model's logits leave nothing to choose from at step {paths.length}",
                got=f"NaN, +inf, or −inf for every token, in row {int(paths.row_N[broken][0])}",
                remedy="Check the inputs and the weights for NaN.",
            )
        return log_probs_NV

    def _allow(self, log_probs_NV: Tensor, paths: Paths) -> Tensor:
        request, search = self._request, self._search
        constraints.forbid(log_probs_NV, request.forbidden)
        if paths.length < search.min_length:
            constraints.forbid(log_probs_NV, request.ends)
        constraints.forbid_repeats(log_probs_NV, paths.tokens_NT, search.no_repeat_ngram, ends=request.ends)
        constraints.force(log_probs_NV, request.forced(paths.length, paths.row_N))
        return log_probs_NV


def _attention(record: taps.Record, site: str) -> Tensor:
    """The attention that each input got in one step [N,K]: mean over heads, and over sites if the name fits several."""
    if not record.seen:
        raise RegardError(f"the model's coverage site {site!r} reported nothing", remedy="Set coverage_penalty to 0.")
    seen = [entry.weights.mean(1).sum(1) for entry in record.seen if entry.weights is not None]
    return torch.stack(seen).sum(0) / len(record.sites)
