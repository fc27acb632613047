"""The paths that have ended, as hypotheses: scored, and ranked within their row."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from regard.core.search import Search
from regard.decoding.paths import Paths
from regard.decoding.request import Request
from regard.decoding.result import Hypothesis, Ranking
from regard.decoding.scoring import coverage, divisor, reachable


class Finished:
    """The rankings of all rows. `bar_B` is the bar of each row's ranking (see `Ranking.bar`)."""

    def __init__(self, request: Request, search: Search) -> None:
        self._request, self._search = request, search
        self._rankings = [Ranking(search.nbest) for _ in request.numbers]
        self.bar_B = torch.full_like(request.limit_B, -math.inf, dtype=torch.float64)

    @property
    def results(self) -> list[list[Hypothesis]]:
        return [ranking.best for ranking in self._rankings]

    def add(self, paths: Paths, length: int, *, finished: bool) -> None:
        """Rank paths; `length` counts the end token. Unfinished paths only fill up a row with too few finished ones."""
        if not len(paths):
            return
        score_N, bar_N = self._score(paths, length), self.bar_B[paths.row_N]
        enters_N = (score_N > bar_N) if finished else (bar_N == -math.inf)
        entering, rows = paths.at(enters_N), paths.row_N[enters_N].tolist()
        facts = (entering.tokens_NT, score_N[enters_N], entering.log_prob_N)
        for row, tokens, score, log_prob in zip(rows, *(fact.tolist() for fact in facts), strict=True):
            self._rankings[row].add(Hypothesis(tokens, score, log_prob, finished))
        self.bar_B[paths.row_N[enters_N]] = self.bar_B.new_tensor([self._rankings[row].bar for row in rows])

    def settled(self, row_R: Tensor, log_prob_R: Tensor) -> Tensor:
        """Which rows are done: their best live path, at this log-probability, can no longer enter the ranking."""
        n_max_R = (self._request.limit_B - self._request.prefix_length_B)[row_R]
        return reachable(log_prob_R, n_max_R, self._search) <= self.bar_B[row_R]

    def _score(self, paths: Paths, length: int) -> Tensor:
        n_N = length - self._request.prefix_length_B[paths.row_N]
        score_N = paths.log_prob_N / divisor(n_N, self._search)
        if paths.cover_NK is None:
            return score_N
        real_NK = self._request.real_inputs(paths.cover_NK.shape[1])[paths.row_N]
        return score_N + self._search.coverage_penalty * coverage(paths.cover_NK, real_NK)
