"""Beam search (Graves 2012; Sutskever et al. 2014) that stops exactly when nothing better can come.

At each step, of all continuations of a row's live paths, the k = `beam` most probable are taken; those that end are
ranked by their score (`scoring`) and leave, and the next most probable that do not end fill the beam up to k again. A
row stops when its best live path cannot enter the list of `nbest` finished ones any more, whatever comes; when nothing
lives; or at its limit. The result is that of searching on to the limit. Unfinished paths are returned only where fewer
than `nbest` finished. A path that constraints leave no token is dropped while others of its row live.

Where we differ: Sutskever et al. shrink the beam with each path that ends, others stop at the first k that ended; a
beam that stays full searches more, and the bound makes the stop safe rather than a guess. A beam of 1 is greedy search,
which ends with the first end token (`greedy`).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from regard.decoding.finished import Finished
from regard.decoding.paths import Paths
from regard.decoding.request import Request
from regard.decoding.top_continuations import TopContinuations, top_continuations


class Beam:
    """Begins with one path a row, and opens up to `width` as there are continuations to fill it."""

    def __init__(self, width: int, request: Request, finished: Finished) -> None:
        self._width, self._request, self._finished = width, request, finished
        self._now = 1

    def advance(self, log_probs_NV: Tensor, paths: Paths) -> tuple[Tensor, Paths]:
        """The index of the path that each new one continues, and the new paths, of the rows that go on."""
        row_R = paths.row_N[:: self._now]
        count = (1 + max(len(self._request.ends), 1)) * self._width
        best = top_continuations(log_probs_NV, paths.log_prob_N, len(row_R), count)
        ends_RC = self._ends(best, row_R, paths.length)
        self._finish(best, ends_RC, paths)
        live_RC = best.log_prob_RC.masked_fill(ends_RC, -math.inf)
        live_RL, rank_RL = live_RC.topk(min(self._width, live_RC.shape[1]))
        self._give_up(paths, best.log_prob_RC[:, 0] == -math.inf)
        index_RL, token_RL = best.path_RC.gather(1, rank_RL), best.token_RC.gather(1, rank_RL)
        full_R = self._request.limit_B[row_R] == paths.length + 1
        self._run_out(paths, index_RL[full_R], token_RL[full_R], live_RL[full_R])
        # Settled also says so of a row where nothing lives: −inf enters no list.
        on_R = ~(full_R | self._finished.settled(row_R, live_RL[:, 0]))
        index_N = index_RL[on_R].flatten()
        self._now = live_RL.shape[1]
        return index_N, paths.at(index_N).extend(token_RL[on_R].flatten(), live_RL[on_R].flatten())

    def _ends(self, best: TopContinuations, row_R: Tensor, step: int) -> Tensor:
        """Which continuations end their path: an end token that was not forced."""
        free_R = self._request.forced(step, row_R) < 0
        possible_RC = best.log_prob_RC > -math.inf
        return self._request.is_end(best.token_RC) & possible_RC & free_R[:, None]

    def _finish(self, best: TopContinuations, ends_RC: Tensor, paths: Paths) -> None:
        ends_RW = ends_RC[:, : self._width]
        path_M, log_prob_M = (part[:, : self._width][ends_RW] for part in (best.path_RC, best.log_prob_RC))
        self._finished.add(paths.at(path_M).ending(log_prob_M), paths.length + 1, finished=True)

    def _run_out(self, paths: Paths, index_FL: Tensor, token_FL: Tensor, live_FL: Tensor) -> None:
        """Rows at their limit: what lives is unfinished."""
        alive_FL = live_FL > -math.inf
        cut = paths.at(index_FL[alive_FL]).extend(token_FL[alive_FL], live_FL[alive_FL])
        self._finished.add(cut, cut.length, finished=False)

    def _give_up(self, paths: Paths, stuck_R: Tensor) -> None:
        """Rows where no path may go on: what lived is unfinished."""
        stuck_N = stuck_R.repeat_interleave(self._now) & (paths.log_prob_N > -math.inf)
        self._finished.add(paths.at(torch.nonzero(stuck_N).flatten()), paths.length, finished=False)
