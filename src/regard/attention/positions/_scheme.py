"""The base class of position schemes: three places where a position can act, each a no-op unless overridden."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.core.errors import LengthError


class Position(nn.Module):
    """A position scheme. `positions` are integers [T], or [B,T] where rows are padded differently."""

    biased = False
    """True when `bias` acts on the scores. Without it no bias is passed, and the fused kernel can be used."""

    bounded = False
    """True when an input may have at most `max_len` tokens."""

    @property
    def inside(self) -> bool:
        """True when the scheme acts inside attention, on query and keys or on the scores."""
        return self.biased or type(self).rotate is not Position.rotate

    def embed(self, x: Float[Tensor, "B T D"], positions: Int[Tensor, "*b T"]) -> Float[Tensor, "B T D"]:
        """Act on the embeddings."""
        return x

    def rotate(self, x: Float[Tensor, "B H T E"], positions: Int[Tensor, "*b T"]) -> Float[Tensor, "B H T E"]:
        """Act on the query and the keys alike."""
        return x

    def bias(self, query: Float[Tensor, "B H Q E"], distance: Tensor) -> Tensor:
        """Act on the scores: broadcastable to [B,H,Q,K], given distance = key position − query position."""
        return query.new_zeros(())


def check_length(positions: Tensor, max_len: int, kind: str) -> None:
    """Refuse positions of `max_len` or more; `kind` names the scheme in the error."""
    last = int(positions.max()) if positions.numel() else -1
    if last >= max_len:
        raise LengthError(
            f"the input is longer than this model's {kind}",
            got=f"{last + 1} tokens",
            expected=f"at most {max_len}",
            remedy="Shorten the input, or train with a larger max_len or with relative positions.",
        )


def direction(d_model: int) -> Tensor:
    """A random initial vector on the scale of learned positions (standard deviation 0.02)."""
    return torch.randn(d_model) * 0.02
