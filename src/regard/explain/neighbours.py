"""Nearest neighbours by cosine, L1 and L2, among any number of candidates."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.core.errors import UnknownName

DISTANCES = ("cosine", "l1", "l2")
_AT_ONCE = 2**22


def nearest(x_ND: Tensor, candidates_MD: Tensor, distance: str) -> Tensor:
    """The index of the candidate nearest to each row [N]; the first of several at equal distance."""
    if distance not in DISTANCES:
        raise UnknownName("distance", distance, DISTANCES)
    if distance == "cosine":
        x_ND, candidates_MD = _unit(x_ND), _unit(candidates_MD)
    if distance == "l2":
        # Centred, so that the squares below are about as large as the distances.
        middle_D = candidates_MD.mean(0)
        x_ND, candidates_MD = x_ND - middle_D, candidates_MD - middle_D
    squares_M = candidates_MD.square().sum(-1)
    indices = []
    for part in x_ND.split(max(1, _AT_ONCE // len(candidates_MD))):
        if distance == "l1":
            far_NM = torch.cdist(part, candidates_MD, p=1.0)
        elif distance == "l2":
            far_NM = squares_M - 2 * part @ candidates_MD.T
        else:
            far_NM = -part @ candidates_MD.T
        indices.append(far_NM.argmin(-1))
    return torch.cat(indices)


def _unit(x_ND: Tensor) -> Tensor:
    return x_ND / x_ND.norm(dim=-1, keepdim=True).clamp_min(1e-12)
