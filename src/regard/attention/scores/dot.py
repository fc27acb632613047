"""Dot product (Luong et al. 2015): score(s, h) = sᵀh."""

from __future__ import annotations

from torch import Tensor

from regard.attention.scores._dot_form import DotForm


class Dot(DotForm):
    def as_dot(self, query: Tensor, keys: Tensor) -> tuple[Tensor, Tensor, float]:
        return query, keys, 1.0
