"""Learned positions (Gehring et al. 2017; BERT, GPT-2): one trained vector for each position, added to the embedding.

There are `max_len` of them. A longer input is refused, neither wrapped nor cut.
"""

from __future__ import annotations

from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.positions._scheme import Position, check_length


class Learned(Position):
    bounded = True

    def __init__(self, d_model: int, max_len: int) -> None:
        super().__init__()
        self.table = nn.Embedding(max_len, d_model)
        nn.init.normal_(self.table.weight, std=0.02)

    def embed(self, x: Float[Tensor, "B T D"], positions: Int[Tensor, "*b T"]) -> Float[Tensor, "B T D"]:
        check_length(positions, self.table.num_embeddings, "learned positions")
        return x + self.table(positions)
