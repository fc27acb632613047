"""Scaled dot product (Vaswani et al. 2017): score(s, h) = sᵀh / √d, d the width of one head; or that / `divisor`."""

from __future__ import annotations

import math

from torch import Tensor

from regard.attention.scores._dot_form import DotForm


class ScaledDot(DotForm):
    def __init__(self, *, divisor: float = 1.0) -> None:
        super().__init__()
        self.divisor = divisor

    def as_dot(self, query: Tensor, keys: Tensor) -> tuple[Tensor, Tensor, float]:
        return query, keys, 1.0 / (math.sqrt(max(query.shape[-1], 1)) * self.divisor)
