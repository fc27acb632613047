"""NTK-scaled rotary positions: inputs longer than those of training, without further training.

Scaling by s raises the base, base' = base · s^(d/(d−2)). The lowest frequency is stretched by exactly s, as in linear
interpolation, and the highest frequency does not change, so neighbouring tokens stay as distinct.
"""

from __future__ import annotations

from typing import Literal

from regard.attention.positions.rotary import Rotary


class RotaryNtk(Rotary):
    def __init__(
        self,
        d_head: int,
        *,
        factor: float = 2.0,
        base: float = 10000.0,
        pairs: Literal["neighbours", "halves"] = "neighbours",
    ) -> None:
        super().__init__(d_head, base=base * factor ** (d_head / max(d_head - 2, 1)), pairs=pairs)
        self.factor = factor
