"""Learned positions (Gehring et al. 2017; BERT, GPT-2): one trained vector for each position, added to the embedding.

There are `max_len` of them. A longer input is refused, neither wrapped nor cut. They begin at random, or as sinusoids:
then neighbours are alike from the first update on, and a small model finds them with less text.
"""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.positions._scheme import Position, check_length
from regard.attention.positions.sinusoidal import encode

_SINUSOIDS = 0.04  # their root mean square is then 0.028, near that of random positions and tokens


class Learned(Position):
    bounded = True

    def __init__(self, d_model: int, max_len: int, *, begin: Literal["random", "sinusoidal"] = "random") -> None:
        super().__init__()
        self.table = nn.Embedding(max_len, d_model)
        nn.init.normal_(self.table.weight, std=0.02)
        if begin == "sinusoidal":
            with torch.no_grad():
                self.table.weight.copy_(_SINUSOIDS * encode(torch.arange(max_len), d_model))

    def embed(self, x: Float[Tensor, "B T D"], positions: Int[Tensor, "*b T"]) -> Float[Tensor, "B T D"]:
        check_length(positions, self.table.num_embeddings, "learned positions")
        return x + self.table(positions)
