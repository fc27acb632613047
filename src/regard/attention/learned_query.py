"""A learned query that summarises a sequence (Yang et al. 2016, HAN).

    u_t = tanh(W h_t + b)        α_t = softmax(u_tᵀ u_w)        s = Σ α_t h_t

`context` in the paper is the learned query u_w. The values are the states h_t themselves. Several queries give several
summaries.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.attend import Attended, attend
from regard.attention.masks import Mask
from regard.core import taps


class LearnedQuery(nn.Module):
    """[B,T,D] → `n_queries` weighted sums [B,n,D]."""

    def __init__(self, d_model: int, d_hidden: int | None = None, *, n_queries: int = 1) -> None:
        super().__init__()
        d_hidden = d_hidden or d_model
        self.key = nn.Linear(d_model, d_hidden)
        self.query = nn.Parameter(torch.empty(n_queries, d_hidden))
        self.site, self.axes = "pooling", taps.Axes("query", "input")
        nn.init.xavier_uniform_(self.key.weight)
        nn.init.zeros_(self.key.bias)
        nn.init.normal_(self.query, std=d_hidden**-0.5)

    def forward(
        self, states: Float[Tensor, "B T D"], *, mask: Tensor | Mask | None = None, rows: Tensor | None = None
    ) -> Attended:
        """Return `context` [B,1,n,D] and `weights` [B,1,n,T], with one head. Padding is given as `Mask(keys=...)`.

        `rows` [B] gives the input of each sequence, if an input has several sequences (see `core.taps.Axes`)."""
        keys_BHTE = torch.tanh(self.key(states)).unsqueeze(1)
        query_BHQE = self.query.expand(states.shape[0], 1, -1, -1)
        axes = replace(self.axes, rows=rows)
        return attend(query_BHQE, keys_BHTE, states.unsqueeze(1), score="dot", mask=mask, site=self.site, axes=axes)
