"""Rotary positions scaled as in Llama 3.1: only slow frequencies are scaled, selected by their number of turns.

Frequency θ_i makes t_i = L·θ_i / 2π turns in the L positions of training. With few turns (t ≤ `few`) it is divided by
`factor`. With many turns (t ≥ `many`) it stays. In between it is interpolated by (t − few) / (many − few).
"""

from __future__ import annotations

import math
from typing import Literal

from jaxtyping import Float
from torch import Tensor

from regard.attention.positions.rotary import Rotary


class RotaryLlama3(Rotary):
    def __init__(
        self,
        d_head: int,
        *,
        factor: float = 8.0,
        trained_len: int = 8192,
        few: float = 1.0,
        many: float = 4.0,
        base: float = 10000.0,
        pairs: Literal["neighbours", "halves"] = "neighbours",
    ) -> None:
        super().__init__(d_head, base=base, pairs=pairs)
        self.factor, self.trained_len, self.few, self.many = factor, trained_len, few, many

    def frequencies(self) -> Float[Tensor, " E_half"]:
        plain = super().frequencies()
        turns = self.trained_len * plain / (2 * math.pi)
        kept = ((turns - self.few) / (self.many - self.few)).clamp(0, 1)
        return plain * (kept + (1 - kept) / self.factor)
