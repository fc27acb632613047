"""Encoder and decoder blocks, built from parts that are passed in.

    encoder    x ← self-attention(x), x ← feed-forward(x)
    decoder    x ← masked self-attention(x), x ← cross-attention(x, memory), x ← feed-forward(x)

Each step is inside its own `Residual`. A block does not know sizes, norms or positions; its parts do.

A block with `recompute = True` keeps only its input for the backward pass and runs its forward pass again there (Chen
et al. 2016, *Training Deep Nets with Sublinear Memory Cost*), with the same random numbers. This gives the same
gradients with less memory and about a third more time.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from regard.attention.heads import KeyValues, MultiHead
from regard.attention.masks import Mask
from regard.core import taps
from regard.core.state import Rows
from regard.layers.residual import Residual


class Recomputing(nn.Module):
    """A block that may recompute its forward pass in the backward pass."""

    recompute = False

    def _maybe_again(self, inside: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        if self.recompute and torch.is_grad_enabled() and not taps.watched():
            again: Tensor = checkpoint(inside, x, use_reentrant=False)
            return again
        return inside(x)


class EncoderBlock(Recomputing):
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
        def inside(x: Tensor) -> Tensor:
            x = self.around_self(x, lambda y: self.self(y, mask=mask, positions=positions, rows=rows))
            return self.around_feedforward(x, self.feedforward)

        return taps.point(self.site, self._maybe_again(inside, x), self.self.axes.keys)


class DecoderBlock(Recomputing):
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

        def inside(x: Tensor) -> Tensor:
            x = self.around_self(x, lambda y: self.self(y, mask=mask, positions=positions, rows=rows))
            x = self.around_cross(x, lambda y: self.cross(y, memory, mask=memory_mask, groups=groups))
            return self.around_feedforward(x, self.feedforward)

        return taps.point(self.site, self._maybe_again(inside, x), self.self.axes.keys)


def stack(block: Callable[[], nn.Module], n_layers: int) -> nn.ModuleList:
    """Make `n_layers` blocks, each with its own random weights."""
    return nn.ModuleList(block() for _ in range(n_layers))
