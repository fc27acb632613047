"""Requests with the same search: their live paths, and how their next tokens are chosen together."""

from __future__ import annotations

from collections.abc import Collection

import torch
from torch import Tensor

from regard.core.search import Search
from regard.decoding.beam import Beam
from regard.decoding.candidates import Candidates, best_of
from regard.decoding.constraints import constrain, penalise_repeats
from regard.decoding.coverage import with_seen
from regard.decoding.finished import Finished
from regard.decoding.greedy import IndependentPaths, most_probable
from regard.decoding.paths import Paths
from regard.decoding.request import SpecialTokens
from regard.decoding.result import Hypothesis
from regard.decoding.sampling import Draw


class Group:
    def __init__(self, search: Search, special: SpecialTokens) -> None:
        self.search, self._special = search, special
        self.finished = Finished(search)
        self.paths: Paths | None = None
        """The live paths; None if there are none."""
        self.competes = search.beam > 1 and not search.sample
        self._strategy: Beam | IndependentPaths
        self.count = 1
        """The number of candidates per path that the search needs, unless it samples."""
        self.few = not (search.sample or search.min_length or search.no_repeat_ngram or search.repetition_penalty != 1)
        """Whether candidates can be selected from the unmodified logits."""
        if self.competes:
            self._strategy = Beam(search.beam, special, self.finished)
            self.count = self._strategy.count
        else:
            choose = Draw(search) if search.sample else most_probable
            copies = search.nbest if search.sample else 1
            self._strategy = IndependentPaths(choose, special, self.finished, copies=copies)

    @property
    def covers(self) -> bool:
        """Whether its scores depend on the attention that inputs received."""
        return self.search.coverage_penalty > 0

    @property
    def logit_penalty(self) -> float:
        """The penalty on repeated tokens that is applied to logits, before the softmax; 1: none."""
        return 1.0 if self.competes else self.search.repetition_penalty

    @property
    def busy(self) -> bool:
        return self.paths is not None

    def join(self, path: Paths) -> None:
        """Add the path of a new request."""
        self.paths = path if self.paths is None else Paths.join([self.paths, path])

    def cover(self, seen_NK: Tensor) -> None:
        """Add the attention that inputs received in this step."""
        assert self.paths is not None
        assert self.paths.cover_NK is not None
        self.paths = Paths(
            self.paths.facts_NF, self.paths.tokens_NT, self.paths.log_prob_N, with_seen(self.paths.cover_NK, seen_NK)
        )

    @property
    def forbidden(self) -> list[int]:
        """Tokens that are never allowed."""
        return sorted({*self._special.forbidden, *self.search.forbidden} - set(self._special.ends))

    def candidates(self, log_probs_NV: Tensor) -> Candidates:
        """The candidates that the search allows; the log-probabilities are changed in place."""
        assert self.paths is not None
        if self.competes and self.search.repetition_penalty != 1.0:
            log_probs_NV = penalise_repeats(log_probs_NV, self.paths.tokens_NT, self.search.repetition_penalty)
        constrain(log_probs_NV, self.paths, self.search, self._special)
        return Candidates(log_probs_NV) if self.search.sample else best_of(log_probs_NV, self.count)

    def advance(self, candidates: Candidates) -> tuple[Tensor, Paths]:
        """Return (index, paths): the new paths of requests that continue, and the index of the path each extends."""
        assert self.paths is not None
        return self._strategy.advance(candidates, self.paths)

    def drop(self, tickets: Collection[int]) -> None:
        """Forget the paths of requests that are over."""
        if self.paths is None:
            return
        stays = [ticket not in tickets for ticket in self.paths.ticket_N.tolist()]
        if not all(stays):
            self.paths = self.paths.at(torch.tensor(stays)) if any(stays) else None

    def give_up(self, ticket: int) -> list[Hypothesis]:
        """The hypotheses of a request, with its live paths as unfinished outputs; empty if it is not in this group."""
        if self.paths is not None:
            self.finished.add(self.paths.at(self.paths.ticket_N == ticket), ended=False)
        return self.finished.take(ticket)
