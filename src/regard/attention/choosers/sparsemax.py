"""Sparsemax (Martins & Astudillo 2016): the point of the simplex nearest to the scores; many weights are exactly 0.

weights = max(score − τ, 0) with τ such that they sum to 1. With the largest score shifted to 0, τ ≥ −1, so scores
at or below −1 get weight 0 and may be clamped there: that keeps the huge negative scores of forbidden keys out of sums.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn


class Sparsemax(nn.Module):
    fused = False
    stochastic = False

    def forward(self, scores: Float[Tensor, "*BHQ K"]) -> Float[Tensor, "*BHQ K"]:
        shifted = (scores - scores.amax(-1, keepdim=True).detach()).clamp_min(-1.0)
        with torch.no_grad():
            support = _support(shifted.double()).to(scores.dtype)
        # Given the support, τ is linear in the scores: autograd of these two lines is the exact Jacobian.
        tau = ((shifted * support).sum(-1, keepdim=True) - 1.0) / support.sum(-1, keepdim=True)
        return (shifted - tau).clamp_min(0.0) * support


def _support(shifted: Tensor) -> Tensor:
    ordered, _ = shifted.sort(dim=-1, descending=True)
    count = torch.arange(1, shifted.shape[-1] + 1, dtype=shifted.dtype, device=shifted.device)
    inside = 1.0 + count * ordered > ordered.cumsum(-1)
    size = inside.sum(-1, keepdim=True)
    tau = (ordered.cumsum(-1).gather(-1, size - 1) - 1.0) / size
    return shifted > tau
