"""Beam search (Graves 2012; Sutskever et al. 2014) that stops exactly when no better output is possible.

Each step takes the k = `beam` most probable continuations of a request's live paths. Continuations that end are ranked
by their score (`scoring`) and leave the beam; the next most probable continuations that do not end fill it up to k
again. A request stops when its best live path can no longer enter the list of `nbest` finished outputs, when it has no
live path, or at its length limit. The result is the same as that of a search up to the limit. With `patience` it stops
as soon as enough outputs have ended. Unfinished paths are returned only if fewer than `nbest` outputs finished. A path
for which the constraints allow no token is dropped while its request has other live paths.

Where we differ: Sutskever et al. shrink the beam with each path that ends; other implementations stop after the first k
paths that end. A beam that stays full searches more, and the bound makes stopping safe rather than heuristic. A beam of
1 is greedy search, which ends with the first end token (`greedy`).
"""

from __future__ import annotations

import math
from itertools import groupby
from typing import NamedTuple

import torch
from torch import Tensor

from regard.decoding.candidates import Candidates
from regard.decoding.finished import Finished
from regard.decoding.paths import Paths
from regard.decoding.request import SpecialTokens


class _Continuations(NamedTuple):
    """The best continuations of each request, best first. `path` is an index among the paths of all requests."""

    log_prob_RC: Tensor
    path_RC: Tensor
    token_RC: Tensor


class Beam:
    """The beam of a request begins with one path, and grows up to `width` paths as there are enough continuations."""

    def __init__(self, width: int, special: SpecialTokens, finished: Finished) -> None:
        self._width, self._special, self._finished = width, special, finished
        self.count = (1 + max(len(special.ends), 1)) * width
        """The number of candidates of a path that can matter: `width` that continue, and `width` for each end token."""

    def advance(self, candidates: Candidates, paths: Paths) -> tuple[Tensor, Paths]:
        """Return (index, paths): the new paths of the requests that continue, and the index of the path each extends.

        The paths of a request are adjacent. Requests with the same number of paths are searched together.
        """
        index_by_count: dict[int, list[int]] = {}
        start = 0
        for _, run in groupby(paths.ticket_N.tolist()):
            count = len(list(run))
            index_by_count.setdefault(count, []).extend(range(start, start + count))
            start += count
        if len(index_by_count) == 1:
            return self._advance(candidates, paths, next(iter(index_by_count)))
        parts = []
        for count, rows in index_by_count.items():
            rows_M = torch.tensor(rows, device=paths.ticket_N.device)
            index_N, longer = self._advance(candidates.at(rows_M), paths.at(rows_M), count)
            parts.append((rows_M[index_N], longer))
        return torch.cat([index_N for index_N, _ in parts]), Paths.join([longer for _, longer in parts])

    def _advance(self, candidates: Candidates, paths: Paths, now: int) -> tuple[Tensor, Paths]:
        """`now` is the number of paths of each request."""
        rows = paths.at(torch.arange(0, len(paths), now, device=paths.ticket_N.device))
        best = self._best(candidates, paths.log_prob_N, now)
        ends_RC = self._special.is_end(best.token_RC) & (best.log_prob_RC > -math.inf)
        self._finish(best, ends_RC, paths)
        live_RC = best.log_prob_RC.masked_fill(ends_RC, -math.inf)
        live_RL, rank_RL = live_RC.topk(min(self._width, live_RC.shape[1]))
        self._give_up(paths, best.log_prob_RC[:, 0] == -math.inf, now)
        index_RL, token_RL = best.path_RC.gather(1, rank_RL), best.token_RC.gather(1, rank_RL)
        full_R = rows.limit_N == rows.length_N + 1
        self._run_out(paths, index_RL[full_R], token_RL[full_R], live_RL[full_R])
        # A request without a live path is settled too: a log-probability of −inf enters no list.
        on_R = ~(full_R | self._finished.settled(rows, live_RL[:, 0]))
        index_N = index_RL[on_R].flatten()
        return index_N, paths.at(index_N).extend(token_RL[on_R].flatten(), live_RL[on_R].flatten())

    def _best(self, candidates: Candidates, before_N: Tensor, now: int) -> _Continuations:
        """The most probable continuations. Sums are float64, since float32 is too imprecise for a long path."""
        assert candidates.token_NC is not None
        each = candidates.token_NC.shape[1]
        total_RX = (candidates.log_prob_NC + before_N[:, None]).view(-1, now * each)
        log_prob_RC, place_RC = total_RX.topk(min(self.count, now * each))
        first_R1 = torch.arange(0, len(before_N), now, device=before_N.device)[:, None]
        token_RC = candidates.token_NC.view(-1, now * each).gather(1, place_RC)
        return _Continuations(log_prob_RC, first_R1 + place_RC // each, token_RC)

    def _finish(self, best: _Continuations, ends_RC: Tensor, paths: Paths) -> None:
        ends_RW = ends_RC[:, : self._width]
        path_M, log_prob_M = (part[:, : self._width][ends_RW] for part in (best.path_RC, best.log_prob_RC))
        self._finished.add(paths.at(path_M).ending(log_prob_M), ended=True)

    def _run_out(self, paths: Paths, index_FL: Tensor, token_FL: Tensor, live_FL: Tensor) -> None:
        """Add the live paths of requests at their length limit as unfinished outputs."""
        alive_FL = live_FL > -math.inf
        self._finished.add(paths.at(index_FL[alive_FL]).extend(token_FL[alive_FL], live_FL[alive_FL]), ended=False)

    def _give_up(self, paths: Paths, stuck_R: Tensor, now: int) -> None:
        """Add the paths of requests in which no path can continue as unfinished outputs."""
        stuck_N = stuck_R.repeat_interleave(now) & (paths.log_prob_N > -math.inf)
        self._finished.add(paths.at(torch.nonzero(stuck_N).flatten()), ended=False)
