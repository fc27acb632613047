"""Relative positions of T5 (Raffel et al. 2020), acting on the scores: one trained number per head and distance bucket.

Half of the buckets are single distances; the widths of the others grow logarithmically up to `max_distance`. Farther
keys share the last bucket. Bidirectional attention uses half of the buckets for keys after the query; causal attention
needs no buckets for them.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.positions._scheme import Position


class RelativeT5(Position):
    biased = True

    def __init__(
        self, n_heads: int, *, n_buckets: int = 32, max_distance: int = 128, bidirectional: bool = True
    ) -> None:
        super().__init__()
        self.n_buckets, self.max_distance, self.bidirectional = n_buckets, max_distance, bidirectional
        self.table = nn.Embedding(n_buckets, n_heads)
        nn.init.normal_(self.table.weight, std=0.02)

    def bucket(self, distance: Tensor) -> Tensor:
        distance = distance.round().long()
        count = self.n_buckets // 2 if self.bidirectional else self.n_buckets
        offset = (distance > 0).long() * count if self.bidirectional else torch.zeros_like(distance)
        far = distance.abs() if self.bidirectional else (-distance).clamp_min(0)
        exact = count // 2
        growth = torch.log(far.clamp_min(1) / exact) / math.log(self.max_distance / exact)
        spread = (exact + (growth * (count - exact)).long()).clamp_max(count - 1)
        return offset + torch.where(far < exact, far, spread)

    def bias(self, query: Float[Tensor, "B H Q E"], distance: Tensor) -> Tensor:
        by_head = self.table(self.bucket(distance)).movedim(-1, -3)
        if distance.dim() == 2:
            return by_head
        # Distances that differ between heads (predicted centres): head h reads its own row of the table.
        return by_head.expand(-1, by_head.shape[2], -1, -1, -1).diagonal(dim1=1, dim2=2).movedim(-1, 1)
