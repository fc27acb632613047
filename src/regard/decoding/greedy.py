"""Paths that do not compete: each takes its most probable token (greedy search), or one that is drawn (`sampling`)."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from regard.decoding.finished import Finished
from regard.decoding.paths import Paths
from regard.decoding.request import SpecialTokens
from regard.decoding.top_continuations import best_token

Choose = Callable[[Tensor, Paths], Tensor]
"""From log-probabilities [N,V] and the paths they continue, the next token of each [N]."""


def most_probable(log_probs_NV: Tensor, _: Paths) -> Tensor:
    return best_token(log_probs_NV)


class IndependentPaths:
    """Each path ends with its end token, at its limit, or where constraints leave it no token.

    `copies` paths of each request part at its first step.
    """

    def __init__(self, choose: Choose, special: SpecialTokens, finished: Finished, *, copies: int = 1) -> None:
        self._choose, self._special, self._finished, self._copies = choose, special, finished, copies

    def advance(self, log_probs_NV: Tensor, paths: Paths) -> tuple[Tensor, Paths]:
        """The index of the path that each new one continues, and the new paths, of those that go on."""
        index_N, log_probs_NV, paths = self._opened(log_probs_NV, paths)
        token_N = self._choose(log_probs_NV, paths)
        gain_N = log_probs_NV.gather(1, token_N[:, None])[:, 0]
        total_N = paths.log_prob_N + gain_N
        on_N = self._retire(paths, token_N, gain_N)
        if on_N is None:
            return index_N, paths.extend(token_N, total_N)
        return index_N[on_N], paths.at(on_N).extend(token_N[on_N], total_N[on_N])

    def _opened(self, log_probs_NV: Tensor, paths: Paths) -> tuple[Tensor, Tensor, Paths]:
        """Paths that have not parted yet become as many as there are copies."""
        new_N, index_N = paths.copy_N < 0, torch.arange(len(paths), device=paths.copy_N.device)
        if not bool(new_N.any()):
            return index_N, log_probs_NV, paths
        if self._copies == 1:
            return index_N, log_probs_NV, paths.having("copy", paths.copy_N.clamp_min(0))
        index_N = index_N.repeat_interleave(torch.where(new_N, self._copies, 1))
        paths = paths.at(index_N)
        copies = torch.arange(self._copies, device=index_N.device).repeat(int(new_N.sum()))
        copy_N = paths.copy_N.clone()
        copy_N[copy_N < 0] = copies
        return index_N, log_probs_NV[index_N], paths.having("copy", copy_N)

    def _retire(self, paths: Paths, token_N: Tensor, gain_N: Tensor) -> Tensor | None:
        """Add the paths that end here to the finished ones; return which go on [N], or None where all do."""
        stuck_N = gain_N == -math.inf
        ended_N = self._special.is_end(token_N) & ~stuck_N
        full_N = (paths.limit_N == paths.length_N + 1) & ~ended_N & ~stuck_N
        on_N = ~(ended_N | full_N | stuck_N)
        if bool(on_N.all()):
            return None
        total_N = paths.log_prob_N + gain_N
        self._finished.add(paths.at(ended_N).ending(total_N[ended_N]), ended=True)
        self._finished.add(paths.at(full_N).extend(token_N[full_N], total_N[full_N]), ended=False)
        self._finished.add(paths.at(stuck_N), ended=False)
        return on_N
