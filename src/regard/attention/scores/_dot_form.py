"""What the scores that are inner products share: the scores follow from their dot form."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor, nn


class DotForm(nn.Module, ABC):
    """A score of the form scale · q'ᵀk'. Subclasses say what q', k' and the scale are, in `as_dot`."""

    same_width = True
    by_index = False

    @abstractmethod
    def as_dot(self, query: Tensor, keys: Tensor) -> tuple[Tensor, Tensor, float]:
        """(query', keys', scale)."""

    def prepare(self, keys: Tensor) -> Tensor:
        return keys

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        return self.compare(query, keys)

    def compare(self, query: Tensor, prepared: Tensor) -> Tensor:
        query, keys, scale = self.as_dot(query, prepared)
        # Scaling the smaller operand first is what the fused kernel does; it also costs less than scaling Q × K scores.
        return (query * scale if scale != 1.0 else query) @ keys.transpose(-1, -2)
