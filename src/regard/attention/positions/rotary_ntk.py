"""NTK-scaled rotary positions: longer inputs than trained for, without training.

Scaling by s raises the base, base' = base · s^(d/(d−2)): the lowest frequency is stretched by exactly s (as linear
interpolation would) while the highest stays as it was, so neighbouring tokens keep their resolution.
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
