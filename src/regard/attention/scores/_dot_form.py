"""The base class of scores that are inner products: scores are computed from their dot form."""

from __future__ import annotations

from abc import ABC, abstractmethod

from jaxtyping import Float
from torch import Tensor, nn

from regard.core.contracts import Score


class DotForm(nn.Module, ABC):
    """A score of the form scale · q'ᵀk'. Subclasses define q', k' and the scale in `as_dot`."""

    same_width = True
    by_index = False

    @abstractmethod
    def as_dot(
        self, query: Float[Tensor, "*BH Q E"], keys: Float[Tensor, "*BG K E_key"]
    ) -> tuple[Float[Tensor, "*BH Q E_key"], Float[Tensor, "*BG K E_key"], float]:
        """(query', keys', scale)."""

    def prepare(self, keys: Float[Tensor, "*BG K E_key"]) -> Float[Tensor, "*BG K E_key"]:
        return keys

    def forward(self, query: Float[Tensor, "*BH Q E"], keys: Float[Tensor, "*BG K E_key"]) -> Float[Tensor, "*BH Q K"]:
        return self.compare(query, keys)

    def compare(
        self, query: Float[Tensor, "*BH Q E"], prepared: Float[Tensor, "*BG K E_key"]
    ) -> Float[Tensor, "*BH Q K"]:
        query, keys, scale = self.as_dot(query, prepared)
        # The smaller operand is scaled first, as in the fused kernel; this is cheaper than scaling Q × K scores.
        return (query * scale if scale != 1.0 else query) @ keys.transpose(-1, -2)


def gives_new_memory(score: Score) -> bool:
    """Whether the scores are certainly a new tensor that nothing else holds: the product above, not overridden.

    Any other score may return a tensor that it keeps, and such a tensor must not be overwritten.
    """
    if not isinstance(score, DotForm):
        return False
    return type(score).forward is DotForm.forward and type(score).compare is DotForm.compare
