"""Paths that do not compete: each takes its most probable token (greedy search), or one that is drawn (`sampling`)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from regard.decoding.finished import Finished
from regard.decoding.paths import Paths
from regard.decoding.request import Request

Choose = Callable[[Tensor, Paths], Tensor]
"""From log-probabilities [N,V] and the paths they continue, the next token of each [N]."""


def most_probable(log_probs_NV: Tensor, _: Paths) -> Tensor:
    return log_probs_NV.argmax(-1)


class IndependentPaths:
    """Each path ends with its end token, at its limit, or where constraints leave it no token.

    `copies` paths of each row part at the first step.
    """

    def __init__(self, choose: Choose, request: Request, finished: Finished, *, copies: int = 1) -> None:
        self._choose, self._request, self._finished, self._copies = choose, request, finished, copies

    def advance(self, log_probs_NV: Tensor, paths: Paths) -> tuple[Tensor, Paths]:
        """The index of the path that each new one continues, and the new paths, of those that go on."""
        index_N = torch.arange(len(paths), device=paths.row_N.device)
        if self._copies > 1:
            index_N = index_N.repeat_interleave(self._copies)
            copy_N = torch.arange(self._copies, device=index_N.device).repeat(len(paths))
            paths, log_probs_NV = replace(paths.at(index_N), copy_N=copy_N), log_probs_NV[index_N]
            self._copies = 1
        token_N = self._choose(log_probs_NV, paths)
        gain_N = log_probs_NV.gather(1, token_N[:, None])[:, 0]
        on_N = self._retire(paths, token_N, gain_N)
        total_N = paths.log_prob_N + gain_N
        return index_N[on_N], paths.at(on_N).extend(token_N[on_N], total_N[on_N])

    def _retire(self, paths: Paths, token_N: Tensor, gain_N: Tensor) -> Tensor:
        """Add the paths that end here to the finished ones; return which go on [N]."""
        stuck_N = gain_N == -math.inf
        free_N = self._request.forced(paths.length, paths.row_N) < 0
        ended_N = self._request.is_end(token_N) & free_N & ~stuck_N
        full_N = (self._request.limit_B[paths.row_N] == paths.length + 1) & ~ended_N & ~stuck_N
        total_N = paths.log_prob_N + gain_N
        self._finished.add(paths.at(ended_N).ending(total_N[ended_N]), paths.length + 1, finished=True)
        self._finished.add(paths.at(full_N).extend(token_N[full_N], total_N[full_N]), paths.length + 1, finished=False)
        self._finished.add(paths.at(stuck_N), paths.length, finished=False)
        return ~(ended_N | full_N | stuck_N)
