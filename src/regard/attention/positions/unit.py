"""Positions in [0, 1]: 0 is the first time-step and 1 the last, times a learned vector, added to the embedding.

    PE(p) = p / (n − 1) · w

This is the first of the simple solutions that lectures present before sinusoidal positions. Values are bounded, but the
step from one word to the next depends on n, so a distance means something else in each sentence (`encode` with the
sentence's own n). A model reads padded batches and generates outputs of growing length. There n is `max_len`, and a
longer input is refused.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.positions._scheme import Position, check_length, direction


def encode(positions: Tensor, length: int) -> Tensor:
    """The positions of a sentence of this length as numbers from 0 to 1."""
    return positions.to(torch.get_default_dtype()) / max(length - 1, 1)


class Unit(Position):
    bounded = True

    def __init__(self, d_model: int, max_len: int) -> None:
        super().__init__()
        self.max_len = max_len
        self.direction = nn.Parameter(direction(d_model))

    def embed(self, x: Float[Tensor, "B T D"], positions: Int[Tensor, "*b T"]) -> Float[Tensor, "B T D"]:
        check_length(positions, self.max_len, "positions in [0, 1]")
        return x + encode(positions, self.max_len).to(x.dtype).unsqueeze(-1) * self.direction
