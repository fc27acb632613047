"""YaRN (Peng et al. 2023): rotary positions for longer inputs. Fast frequencies stay, slow frequencies are divided.

The share of the unscaled frequency falls linearly with the index of the pair of features: from the pair that makes
`many` turns in the trained length to the pair that makes `few`, both rounded outwards. Longer inputs also flatten
attention. To sharpen it, query and keys are each multiplied by `gain` = 0.1 · ln(factor) + 1.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.positions.rotary import Rotary
from regard.core.devices import HOST


class RotaryYarn(Rotary):
    def __init__(
        self,
        d_head: int,
        *,
        factor: float = 4.0,
        trained_len: int = 2048,
        few: float = 1.0,
        many: float = 32.0,
        gain: float | None = None,
        base: float = 10000.0,
        pairs: Literal["neighbours", "halves"] = "neighbours",
    ) -> None:
        super().__init__(d_head, base=base, pairs=pairs)
        self.factor, self.trained_len, self.few, self.many = factor, trained_len, few, many
        self.gain = 0.1 * math.log(factor) + 1 if gain is None else gain

    def frequencies(self) -> Float[Tensor, " E_half"]:
        plain = super().frequencies()
        first = max(math.floor(self._pair(self.many)), 0)
        last = min(math.ceil(self._pair(self.few)), self.d_head - 1)
        pairs = torch.arange(len(plain), dtype=plain.dtype, device=HOST)
        kept = 1 - ((pairs - first) / (last - first or 1e-3)).clamp(0, 1)
        return plain * (kept + (1 - kept) / self.factor)

    def _pair(self, turns: float) -> float:
        """The pair of features (usually a fraction) that makes this many turns in the trained length."""
        return self.d_head * math.log(self.trained_len / (turns * 2 * math.pi)) / (2 * math.log(self.base))

    def _turn(self, positions: Tensor) -> Tensor:
        return super()._turn(positions) * self.gain
