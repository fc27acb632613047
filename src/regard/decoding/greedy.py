"""Paths that do not compete: each takes its most probable token (greedy search) or a sampled token (`sampling`)."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from regard.decoding.candidates import Candidates
from regard.decoding.finished import Finished
from regard.decoding.paths import Paths
from regard.decoding.request import SpecialTokens

Choose = Callable[[Candidates, Paths], Tensor]
"""Maps candidates and the paths that they continue to the place of the chosen candidate of each path [N]."""


def most_probable(candidates: Candidates, _: Paths) -> Tensor:
    """The first candidate of each path: candidates are sorted, best first."""
    assert candidates.token_NC is not None
    return candidates.token_NC.new_zeros(len(candidates.token_NC))


class IndependentPaths:
    """Each path ends with its end token, at its length limit, or when the constraints allow no token.

    The path of a request becomes `copies` independent paths at its first step.
    """

    def __init__(self, choose: Choose, special: SpecialTokens, finished: Finished, *, copies: int = 1) -> None:
        self._choose, self._special, self._finished, self._copies = choose, special, finished, copies

    def advance(self, candidates: Candidates, paths: Paths) -> tuple[Tensor, Paths]:
        """Return (index, paths): the new paths of those that continue, and the index of the path each extends."""
        index_N, candidates, paths = self._opened(candidates, paths)
        place_N = self._choose(candidates, paths)
        token_N = candidates.token(place_N)
        gain_N = candidates.log_prob_NC.gather(1, place_N[:, None])[:, 0]
        total_N = paths.log_prob_N + gain_N
        on_N = self._retire(paths, token_N, gain_N)
        if on_N is None:
            return index_N, paths.extend(token_N, total_N)
        return index_N[on_N], paths.at(on_N).extend(token_N[on_N], total_N[on_N])

    def _opened(self, candidates: Candidates, paths: Paths) -> tuple[Tensor, Candidates, Paths]:
        """Turn each path that has not been copied yet into `copies` paths."""
        new_N, index_N = paths.copy_N < 0, torch.arange(len(paths), device=paths.copy_N.device)
        if not bool(new_N.any()):
            return index_N, candidates, paths
        if self._copies == 1:
            return index_N, candidates, paths.having("copy", paths.copy_N.clamp_min(0))
        index_N = index_N.repeat_interleave(torch.where(new_N, self._copies, 1))
        paths = paths.at(index_N)
        copies = torch.arange(self._copies, device=index_N.device).repeat(int(new_N.sum()))
        copy_N = paths.copy_N.clone()
        copy_N[copy_N < 0] = copies
        return index_N, candidates.at(index_N), paths.having("copy", copy_N)

    def _retire(self, paths: Paths, token_N: Tensor, gain_N: Tensor) -> Tensor | None:
        """Add the paths that end here to the finished ones; return which paths continue [N], or None if all do."""
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
