"""Rotary positions (Su et al. 2021), acting on the query and the keys.

Each pair of features (x_{2i}, x_{2i+1}) is turned by the angle p·θ_i, θ_i = N^(−2i/d), N = 10,000; the inner product of
a query at p and a key at p' then depends on p − p' only. Two orders of the pairs are in use: neighbours, as in the
paper (`pairs="neighbours"`), and feature i with i + d/2 (`pairs="halves"`), as in checkpoints of the Llama family.
`scale` > 1 divides the positions (linear interpolation to longer inputs, Chen et al. 2023).
"""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.positions._scheme import Position
from regard.attention.positions._table import GrowingTable
from regard.core.devices import HOST
from regard.core.errors import UsageError


class Rotary(Position):
    def __init__(
        self,
        d_head: int,
        *,
        base: float = 10000.0,
        scale: float = 1.0,
        pairs: Literal["neighbours", "halves"] = "neighbours",
    ) -> None:
        super().__init__()
        if d_head % 2:
            raise UsageError("rotary positions turn pairs of features", got=f"head width {d_head}", expected="even")
        self.d_head, self.base, self.scale, self.pairs = d_head, base, scale, pairs
        self._turns = GrowingTable(self._turn)

    def frequencies(self) -> Float[Tensor, " E_half"]:
        """θ_i in double precision."""
        return self.base ** (-torch.arange(0, self.d_head, 2, dtype=torch.float64, device=HOST) / self.d_head)

    def _turn(self, positions: Tensor) -> Tensor:
        """(cos, sin) of each angle, in double precision: float32 angles past position 100,000 have errors of 1/100."""
        angle = (positions.double() / self.scale).unsqueeze(-1) * self.frequencies()
        return torch.stack([angle.cos(), angle.sin()], dim=-1)

    def turns(self, positions: Tensor, dtype: torch.dtype) -> Tensor:
        """The cosine and the sine of the angle by which each pair of features turns [*positions, E/2, 2]."""
        return self._turns.rows(positions, dtype)

    def rotate(self, x: Float[Tensor, "B H T E"], positions: Int[Tensor, "*b T"]) -> Float[Tensor, "B H T E"]:
        turns = self.turns(positions, x.dtype)
        cos, sin = (turns.unsqueeze(1) if positions.dim() == 2 else turns).unbind(-1)
        if self.pairs == "neighbours":
            even, odd = x[..., 0::2], x[..., 1::2]
            return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2)
        low, high = x.chunk(2, dim=-1)
        return torch.cat([low * cos - high * sin, low * sin + high * cos], dim=-1)
