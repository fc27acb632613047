"""Scaled dot product (Vaswani et al. 2017): score(s, h) = sᵀh / √d, d the head width; optionally also / `divisor`."""

from __future__ import annotations

import math

from jaxtyping import Float
from torch import Tensor

from regard.attention.scores._dot_form import DotForm


class ScaledDot(DotForm):
    def __init__(self, *, divisor: float = 1.0) -> None:
        super().__init__()
        self.divisor = divisor

    def as_dot(
        self, query: Float[Tensor, "*BH Q E"], keys: Float[Tensor, "*BG K E"]
    ) -> tuple[Float[Tensor, "*BH Q E"], Float[Tensor, "*BG K E"], float]:
        return query, keys, 1.0 / (math.sqrt(max(query.shape[-1], 1)) * self.divisor)
