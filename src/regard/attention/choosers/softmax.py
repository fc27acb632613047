"""Softmax: weights = exp(score) / Σ exp(score)."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn


class Softmax(nn.Module):
    fused = True
    stochastic = False

    def forward(self, scores: Float[Tensor, "*BHQ K"]) -> Float[Tensor, "*BHQ K"]:
        return torch.softmax(scores, dim=-1)
