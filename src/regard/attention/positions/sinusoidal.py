"""Sinusoidal positions (Vaswani et al. 2017), added to the embedding.

    PE(p, 2k) = sin(p / 10000^(2k/d))        PE(p, 2k+1) = cos(p / 10000^(2k/d))

Both members of a pair share the frequency of the even index, as in the paper. Positions are computed when needed, in
double precision, so there is no length limit. `pairs="halves"` puts all sines before all cosines, as Marian does.
"""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.positions._scheme import Position
from regard.attention.positions._table import GrowingTable
from regard.core.errors import UsageError


def encode(positions: Tensor, d_model: int, *, base: float = 10000.0, pairs: str = "neighbours") -> Tensor:
    """PE [..., d_model] in double precision."""
    if d_model % 2:
        raise UsageError("sinusoidal positions come in pairs", got=f"width {d_model}", expected="an even width")
    even = torch.arange(0, d_model, 2, dtype=torch.float64, device=positions.device)
    angle = positions.double().unsqueeze(-1) * base ** (-even / d_model)
    if pairs == "halves":
        return torch.cat([angle.sin(), angle.cos()], dim=-1)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2)


class Sinusoidal(Position):
    def __init__(self, d_model: int, *, pairs: Literal["neighbours", "halves"] = "neighbours") -> None:
        super().__init__()
        self._table = GrowingTable(lambda positions: encode(positions, d_model, pairs=pairs))

    def embed(self, x: Float[Tensor, "B T D"], positions: Int[Tensor, "*b T"]) -> Float[Tensor, "B T D"]:
        return x + self._table.rows(positions, x.dtype)
