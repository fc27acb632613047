"""1.5-entmax (Peters et al. 2019): between softmax and sparsemax; sparse, yet smooth inside its support.

weights = max(score/2 − τ, 0)² with τ such that they sum to 1, found exactly by sorting. With the largest score shifted
to 0, τ ≥ −1, so halved scores at or below −1 get weight 0 and may be clamped there.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn


class Entmax15(nn.Module):
    fused = False
    stochastic = False

    def forward(self, scores: Float[Tensor, "*BHQ K"]) -> Float[Tensor, "*BHQ K"]:
        return _Entmax15.apply(scores)  # type: ignore[no-untyped-call]


class _Entmax15(torch.autograd.Function):
    """The Jacobian is diag(r) − r rᵀ/Σr with r = √weights: cheaper and more stable than autograd through sorting."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor) -> Tensor:
        halved = ((scores.double() - scores.double().amax(-1, keepdim=True)) / 2).clamp_min(-1.0)
        weights = (halved - _threshold(halved)).clamp_min(0.0).square().to(scores.dtype)
        ctx.save_for_backward(weights)
        return weights

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (weights,) = ctx.saved_tensors
        root = weights.sqrt()
        inner = grad * root
        return inner - root * (inner.sum(-1, keepdim=True) / root.sum(-1, keepdim=True))


def _threshold(halved: Tensor) -> Tensor:
    """τ of the largest support size k with τ_k ≤ z_k; mean and variance are those of the k largest."""
    ordered, _ = halved.sort(dim=-1, descending=True)
    count = torch.arange(1, halved.shape[-1] + 1, dtype=halved.dtype, device=halved.device)
    mean = ordered.cumsum(-1) / count
    spread = ordered.square().cumsum(-1) - count * mean.square()
    tau = mean - ((1.0 - spread) / count).clamp_min(0.0).sqrt()
    size = (tau <= ordered).sum(-1, keepdim=True)
    return tau.gather(-1, size - 1)
