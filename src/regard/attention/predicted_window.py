"""Luong's predictive alignment (local-p, 2015): a window around a position predicted from the query.

p_t = S · sigmoid(v_pᵀ tanh(W_p h_t))        window [p_t − D, p_t + D]
weights · exp(−(s − p_t)² / 2σ²), σ = D/2

Where we differ: p_t may start on the diagonal, p_t = S · sigmoid(v_pᵀ tanh(W_p h_t) + logit(t/S)). As published, all
windows start in the middle of the source. While attention is of no use there, the model learns to do without it, and
the windows end up at one end of the source (docs/alignment_scores.md).
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.masks import Gaussian, Mask, around


class PredictedWindow(nn.Module):
    """Computes the mask and the gain that make any attention local-p: `attend(..., mask=mask, gain=gain)`."""

    def __init__(self, d_query: int, radius: int = 10) -> None:
        super().__init__()
        self.radius = radius
        self.hidden = nn.Linear(d_query, d_query, bias=False)
        self.place = nn.Linear(d_query, 1, bias=False)

    def forward(
        self, query: Float[Tensor, "B H Q E"], lengths: Int[Tensor, " B"], times: Tensor | None = None
    ) -> tuple[Mask, Gaussian]:
        """`times`, broadcastable to [B,H,Q], are the steps of the queries. If given, the window of step t starts at
        source position t before training, and training moves it from there."""
        place = self.place(torch.tanh(self.hidden(query))).squeeze(-1)
        if times is not None:
            half = 0.5 / lengths.clamp_min(1)[:, None, None]
            place = place + torch.logit(((2 * times + 1) * half).clamp(half, 1 - half).to(place.dtype))
        # Positions count from 0, so the last of S keys is S − 1.
        centre_BHQ = (lengths - 1).clamp_min(0)[:, None, None] * torch.sigmoid(place)
        return around(centre_BHQ, self.radius), Gaussian(self.radius / 2)
