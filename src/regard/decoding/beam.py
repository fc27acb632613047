"""Beam search (Graves 2012; Sutskever et al. 2014) that stops exactly when nothing better can come.

At each step, of all continuations of a request's live paths, the k = `beam` most probable are taken; those that end
are ranked by their score (`scoring`) and leave, and the next most probable that do not end fill the beam up to k again.
A request stops when its best live path cannot enter the list of `nbest` finished ones any more, whatever comes; when
nothing lives; or at its limit. The result is that of searching on to the limit. With `patience` it stops as soon as
enough outputs have ended. Unfinished paths are returned only where fewer than `nbest` finished. A path that
constraints leave no token is dropped while others of its request live.

Where we differ: Sutskever et al. shrink the beam with each path that ends, others stop at the first k that ended; a
beam that stays full searches more, and the bound makes the stop safe rather than a guess. A beam of 1 is greedy search,
which ends with the first end token (`greedy`).
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
    """The best of each request's, best first; `path` counts all paths, not those of the request."""

    log_prob_RC: Tensor
    path_RC: Tensor
    token_RC: Tensor


class Beam:
    """A request begins with one path, and opens up to `width` as there are continuations to fill it."""

    def __init__(self, width: int, special: SpecialTokens, finished: Finished) -> None:
        self._width, self._special, self._finished = width, special, finished
        self.count = (1 + max(len(special.ends), 1)) * width
        """How many candidates of a path can matter: as many that go on as the beam is wide, and as many that end."""

    def advance(self, candidates: Candidates, paths: Paths) -> tuple[Tensor, Paths]:
        """The index of the path that each new one continues, and the new paths, of the requests that go on.

        The paths of a request stand together. Requests with as many paths are searched together.
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
        """`now` is how many paths each request has."""
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
        # Settled also says so of a request where nothing lives: −inf enters no list.
        on_R = ~(full_R | self._finished.settled(rows, live_RL[:, 0]))
        index_N = index_RL[on_R].flatten()
        return index_N, paths.at(index_N).extend(token_RL[on_R].flatten(), live_RL[on_R].flatten())

    def _best(self, candidates: Candidates, before_N: Tensor, now: int) -> _Continuations:
        """The sums are float64: the log-probability of a long path has no digits to spare in float32."""
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
        """Requests at their limit: what lives is unfinished."""
        alive_FL = live_FL > -math.inf
        self._finished.add(paths.at(index_FL[alive_FL]).extend(token_FL[alive_FL], live_FL[alive_FL]), ended=False)

    def _give_up(self, paths: Paths, stuck_R: Tensor, now: int) -> None:
        """Requests where no path may go on: what lived is unfinished."""
        stuck_N = stuck_R.repeat_interleave(now) & (paths.log_prob_N > -math.inf)
        self._finished.add(paths.at(torch.nonzero(stuck_N).flatten()), ended=False)
