"""Learned positions (Gehring et al. 2017; BERT, GPT-2): one trained vector for each position, added to the embedding.

There are `max_len` of them. A longer input is refused, neither wrapped nor cut.
"""

from __future__ import annotations

from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.positions._scheme import Position
from regard.core.errors import LengthError


class Learned(Position):
    def __init__(self, d_model: int, max_len: int) -> None:
        super().__init__()
        self.table = nn.Embedding(max_len, d_model)
        nn.init.normal_(self.table.weight, std=0.02)

    def embed(self, x: Float[Tensor, "B T D"], positions: Int[Tensor, "*b T"]) -> Float[Tensor, "B T D"]:
        max_len = self.table.num_embeddings
        last = int(positions.max()) if positions.numel() else -1
        if last >= max_len:
            raise LengthError(
                "the input is longer than this model's learned positions",
                got=f"{last + 1} tokens",
                expected=f"at most {max_len}",
                remedy="Shorten the input, or train with a larger max_len or with relative positions.",
            )
        return x + self.table(positions)
