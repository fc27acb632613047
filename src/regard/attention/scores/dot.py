"""Dot product (Luong et al. 2015): score(s, h) = sᵀh, or sᵀh / `divisor`."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from regard.attention.scores._dot_form import DotForm


class Dot(DotForm):
    def __init__(self, *, divisor: float = 1.0) -> None:
        super().__init__()
        self.divisor = divisor

    def as_dot(
        self, query: Float[Tensor, "*BH Q E"], keys: Float[Tensor, "*BG K E"]
    ) -> tuple[Float[Tensor, "*BH Q E"], Float[Tensor, "*BG K E"], float]:
        return query, keys, 1.0 / self.divisor
