"""Additive (Bahdanau et al. 2015): score(s, h) = vᵀ tanh(W [s; h]).

W [s; h] = W_s s + W_h h, so query and keys are projected separately, each once. Only the tanh is computed for each pair
of query and key. All heads share one v.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn


class Additive(nn.Module):
    same_width = False
    by_index = False

    def __init__(self, d_query: int, d_key: int, *, d_hidden: int | None = None) -> None:
        super().__init__()
        d_hidden = d_hidden or d_key
        self.query = nn.Linear(d_query, d_hidden, bias=False)
        self.key = nn.Linear(d_key, d_hidden, bias=True)
        self.v = nn.Linear(d_hidden, 1, bias=False)
        for part in (self.query, self.key, self.v):
            nn.init.xavier_uniform_(part.weight)
        nn.init.zeros_(self.key.bias)

    def as_dot(self, query: Float[Tensor, "*BH Q E"], keys: Float[Tensor, "*BG K E_key"]) -> None:
        return None

    def forward(self, query: Float[Tensor, "*BH Q E"], keys: Float[Tensor, "*BG K E_key"]) -> Float[Tensor, "*BH Q K"]:
        return self.compare(query, self.prepare(keys))

    def prepare(self, keys: Float[Tensor, "*BG K E_key"]) -> Float[Tensor, "*BG K D_hidden"]:
        return self.key(keys)

    def compare(
        self, query: Float[Tensor, "*BH Q E"], prepared: Float[Tensor, "*BG K D_hidden"]
    ) -> Float[Tensor, "*BH Q K"]:
        both_BHQKD = torch.tanh(self.query(query).unsqueeze(-2) + prepared.unsqueeze(-3))
        return self.v(both_BHQKD).squeeze(-1)
