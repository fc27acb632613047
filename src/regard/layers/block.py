"""Encoder and decoder blocks, built from parts that are passed in.

    encoder    x ← self-attention(x), x ← feed-forward(x)
    decoder    x ← masked self-attention(x), x ← cross-attention(x, memory), x ← feed-forward(x)

Each step is inside its own `Residual`. A block does not know sizes, norms or positions; its parts do.
"""

from __future__ import annotations

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.heads import KeyValues, MultiHead
from regard.attention.masks import Mask
from regard.core import taps
from regard.core.state import Rows
from regard.layers.residual import Residual


class EncoderBlock(nn.Module):
    """Self-attention and a feed-forward network; with a causal mask and `rows` it is a decoder-only block."""

    def __init__(self, attention: MultiHead, feedforward: nn.Module, residual: Callable[[], Residual]) -> None:
        super().__init__()
        self.self, self.feedforward = attention, feedforward
        self.around_self, self.around_feedforward = residual(), residual()
        self.site = "block"

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        *,
        mask: Tensor | Mask | None = None,
        positions: Tensor | None = None,
        rows: Rows | None = None,
    ) -> Float[Tensor, "B T D"]:
        x = self.around_self(x, lambda y: self.self(y, mask=mask, positions=positions, rows=rows))
        x = self.around_feedforward(x, self.feedforward)
        return taps.point(self.site, x, self.self.axes.keys)


class DecoderBlock(nn.Module):
    """Masked self-attention, attention to a prepared memory, and a feed-forward network."""

    def __init__(
        self, attention: MultiHead, cross: MultiHead, feedforward: nn.Module, residual: Callable[[], Residual]
    ) -> None:
        super().__init__()
        self.self, self.cross, self.feedforward = attention, cross, feedforward
        self.around_self, self.around_cross, self.around_feedforward = residual(), residual(), residual()
        self.site = "block"

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        memory: KeyValues,
        *,
        mask: Tensor | Mask | None = None,
        memory_mask: Tensor | Mask | None = None,
        positions: Tensor | None = None,
        rows: Rows | None = None,
    ) -> Float[Tensor, "B T D"]:
        groups = None if rows is None else rows.groups
        x = self.around_self(x, lambda y: self.self(y, mask=mask, positions=positions, rows=rows))
        x = self.around_cross(x, lambda y: self.cross(y, memory, mask=memory_mask, groups=groups))
        x = self.around_feedforward(x, self.feedforward)
        return taps.point(self.site, x, self.self.axes.keys)


def stack(block: Callable[[], nn.Module], n_layers: int) -> nn.ModuleList:
    """Make `n_layers` blocks, each with its own random weights."""
    return nn.ModuleList(block() for _ in range(n_layers))
