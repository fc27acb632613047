"""Linear positions: the time-step times a learned vector, added to the embedding.

    PE(p) = p · w

This is the second of the simple solutions that lectures present before sinusoidal positions. Each position has its own
value, and a distance means the same in every sentence. But values grow without bound, so a sentence longer than all
training sentences has values that the model has never seen. The value is added along a learned direction w, because
the same number in every coordinate would vanish in a layer norm.
"""

from __future__ import annotations

from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.positions._scheme import Position, direction


class Linear(Position):
    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.direction = nn.Parameter(direction(d_model))

    def embed(self, x: Float[Tensor, "B T D"], positions: Int[Tensor, "*b T"]) -> Float[Tensor, "B T D"]:
        return x + positions.to(x.dtype).unsqueeze(-1) * self.direction
