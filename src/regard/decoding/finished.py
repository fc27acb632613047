"""Paths that have ended, as hypotheses: they are scored, and ranked within their request."""

from __future__ import annotations

import math
from collections import Counter

import torch
from torch import Tensor

from regard.core.search import Search
from regard.decoding.paths import Paths
from regard.decoding.result import Hypothesis, Ranking
from regard.decoding.scoring import coverage, divisor, reachable


class Finished:
    """The rankings of the requests of one search, by their tickets."""

    def __init__(self, search: Search) -> None:
        self._search = search
        self._rankings: dict[int, Ranking] = {}
        self._ended = Counter[int]()

    def take(self, ticket: int) -> list[Hypothesis]:
        """Return the hypotheses of a request, and forget the request."""
        self._ended.pop(ticket, None)
        return self._rankings.pop(ticket, Ranking(1)).best

    def add(self, paths: Paths, *, ended: bool) -> None:
        """Add paths to the rankings: paths that an end token closes (`ended`), or unfinished paths, which only enter
        while a request has too few finished ones."""
        if not len(paths):
            return
        if ended:
            self._ended.update(paths.ticket_N.tolist())
        score_N, bar_N = self._score(paths, paths.length_N + int(ended)), self._bars(paths.ticket_N)
        enters_N = (score_N > bar_N) if ended else (bar_N == -math.inf)
        entering = paths.at(enters_N)
        facts = entering.ticket_N.tolist(), score_N[enters_N].tolist(), entering.log_prob_N.tolist()
        for tokens, ticket, score, log_prob in zip(entering.written(), *facts, strict=True):
            ranking = self._rankings.setdefault(ticket, Ranking(self._search.nbest))
            ranking.add(Hypothesis(tokens, score, log_prob, ended))

    def settled(self, rows: Paths, log_prob_R: Tensor) -> Tensor:
        """Which requests are done [R]: their best live path, with this log-probability, can no longer enter the
        ranking, or `patience` × beam outputs have ended."""
        settled_R = reachable(log_prob_R, rows.limit_N - rows.prefix_N, self._search) <= self._bars(rows.ticket_N)
        if self._search.patience is None:
            return settled_R
        enough = self._search.patience * self._search.beam
        ended = [self._ended[ticket] >= enough for ticket in rows.ticket_N.tolist()]
        return settled_R | torch.tensor(ended, device=settled_R.device)

    def _bars(self, ticket_N: Tensor) -> Tensor:
        none = -math.inf
        bars = [self._rankings[t].bar if t in self._rankings else none for t in ticket_N.tolist()]
        return torch.tensor(bars, dtype=torch.float64, device=ticket_N.device)

    def _score(self, paths: Paths, length_N: Tensor) -> Tensor:
        score_N = paths.log_prob_N / divisor(length_N - paths.prefix_N, self._search)
        if paths.cover_NK is None:
            return score_N
        return score_N + self._search.coverage_penalty * coverage(paths.cover_NK)
