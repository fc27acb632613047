"""Relative positions of Shaw et al. (2018), acting on the scores.

    score(i, j) = q_iᵀ k_j / √d + q_iᵀ a_{clip(j−i)} / √d

with a trained vector a for each distance from −`reach` to `reach`, shared by all heads. Farther keys use the vector of
the largest distance. The paper's second table, for the values, is left out: the paper's ablation finds no effect.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.positions._scheme import Position


class RelativeShaw(Position):
    biased = True

    def __init__(self, d_head: int, *, reach: int = 16) -> None:
        super().__init__()
        self.reach = reach
        self.table = nn.Embedding(2 * reach + 1, d_head)
        nn.init.xavier_uniform_(self.table.weight)

    def bias(self, query: Float[Tensor, "B H Q E"], distance: Tensor) -> Tensor:
        # First q·a for the few distances, then a look-up for each pair: Q × (2·reach+1) products, not Q × K.
        by_distance = query @ self.table.weight.T / math.sqrt(query.shape[-1])
        place = distance.round().long().clamp(-self.reach, self.reach) + self.reach
        shape = torch.broadcast_shapes(place.shape, (*query.shape[:3], 1))
        return by_distance.gather(-1, place.expand(shape))
