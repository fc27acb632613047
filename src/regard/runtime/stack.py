"""Blocks with packed products: a step costs little more than its products and its attention.

The weights of a block of `layers.block` are packed once. Query, key and value become one product; a product adds the
residual to its result; rows are flat [N,D]. A step (one new token of each path) is a `Program`; whole sequences and
prompts go through the methods here, which call `attend` as the model does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor, nn

from regard.attention import Mask, attend
from regard.attention.heads import MultiHead
from regard.attention.scores.dot import Dot
from regard.attention.scores.scaled_dot import ScaledDot
from regard.core.state import Rows
from regard.layers.block import DecoderBlock, EncoderBlock
from regard.layers.feedforward import FeedForward, activate
from regard.layers.residual import Residual
from regard.runtime.products import Product

Pack = Callable[[Tensor, Tensor | None], Product]


def why_not(block: nn.Module) -> str | None:
    """The reason why a block cannot be prepared; None if it can."""
    if not isinstance(block, EncoderBlock | DecoderBlock) or not isinstance(block.feedforward, FeedForward):
        return f"a block of the kind {type(block).__name__}"
    residuals = [part for part in block.children() if isinstance(part, Residual)]
    if any(not isinstance(part.norm, nn.LayerNorm | nn.RMSNorm | nn.Identity) for part in residuals):
        return f"norms of the kind {type(residuals[0].norm).__name__}"
    if any(part.order == "none" for part in residuals):
        return "blocks without residual connections"
    for heads in (part for part in block.children() if isinstance(part, MultiHead)):
        if not isinstance(heads.score, ScaledDot | Dot) or not heads.chooser.fused:
            return "scores other than inner products with a softmax"
        if heads.position is not None and heads.position.biased:
            return "positions that act on the scores"
    return None


class Spread:
    """Keeps only the real tokens [M] of sequences [B,T], so that products do no work for padding."""

    def __init__(self, n_rows: int, length: int, real_BT: Tensor | None) -> None:
        self.n_rows, self._length, self._places_M = n_rows, length, None
        if real_BT is not None and not bool(real_BT.all()):
            self._places_M = real_BT.flatten().nonzero()[:, 0]

    def back(self, x: Tensor) -> Tensor:
        """[B·T,D] → [M,D]"""
        return x if self._places_M is None else x.index_select(0, self._places_M)

    def out(self, x_MD: Tensor) -> Tensor:
        """[M,D] → [B·T,D], with zeros at padding"""
        if self._places_M is None:
            return x_MD
        return x_MD.new_zeros(self.n_rows * self._length, x_MD.shape[1]).index_copy_(0, self._places_M, x_MD)


class Heads:
    """The packed weights of a `MultiHead`. With `memory`, keys and values come from a memory (cross-attention)."""

    def __init__(self, heads: MultiHead, pack: Pack, *, memory: bool = False) -> None:
        self._score, self.position = heads.score, heads.position
        self.n, self.n_kv, self.width = heads.n_heads, heads.n_kv_heads, heads.d_head
        parts = [heads.query] if memory else [heads.query, heads.key, heads.value]
        self.input = pack(*_joined(parts))
        self._memory = pack(*_joined([heads.key, heads.value])) if memory else None
        self.output = pack(heads.output.weight, heads.output.bias)
        nothing = torch.zeros(1, 1, 1, self.width)
        form = heads.score.as_dot(nothing, nothing)
        assert form is not None
        self.scale = form[2]

    def prepare(self, memory_MD: Tensor, rows: int) -> list[Tensor]:
        """Keys and values [R,G,S,E] of a memory, which is given flat [R·S,D]."""
        assert self._memory is not None
        both = self._memory(memory_MD).view(rows, -1, 2 * self.n_kv, self.width).transpose(1, 2)
        return list(both.split(self.n_kv, 1))

    def whole(self, x_MD: Tensor, residual_MD: Tensor, spread: Spread, mask: Mask | None, positions: Tensor) -> Tensor:
        """Self-attention of whole sequences."""
        query, keys, values = self._split(spread.out(self.input(x_MD)), spread.n_rows, positions)
        attended = attend(query, keys, values, score=self._score, mask=mask, site=None)
        return self.output(spread.back(attended.context.transpose(1, 2).flatten(2).flatten(0, 1)), residual_MD)

    def prompt(self, x_MD: Tensor, residual_MD: Tensor, rows: Rows, mask: Mask, positions: Tensor) -> Tensor:
        """Self-attention of several new tokens of each path."""
        query, keys, values = self._split(self.input(x_MD), len(rows.paths_N), positions)
        keys, values = rows.extend("keys", keys), rows.extend("values", values)
        attended = attend(query, keys, values, score=self._score, mask=mask, site=None)
        return self.output(attended.context.transpose(1, 2).flatten(2).flatten(0, 1), residual_MD)

    def _split(self, every_MD: Tensor, n_rows: int, positions: Tensor) -> list[Tensor]:
        every = every_MD.view(n_rows, -1, self.n + 2 * self.n_kv, self.width).transpose(1, 2)
        query, keys, values = every.split([self.n, self.n_kv, self.n_kv], 1)
        if self.position is not None:
            query, keys = self.position.rotate(query, positions), self.position.rotate(keys, positions)
        return [query, keys, values]


class Block:
    """An `EncoderBlock` or `DecoderBlock` with packed weights."""

    def __init__(self, block: EncoderBlock | DecoderBlock, pack: Pack) -> None:
        self.attention = Heads(block.self, pack)
        self.cross = Heads(block.cross, pack, memory=True) if isinstance(block, DecoderBlock) else None
        around = [part for part in block.children() if isinstance(part, Residual)]
        self.norms = [part.norm for part in around]
        self.first = around[0].order == "pre"
        feedforward = cast(FeedForward, block.feedforward)
        self.activation, self.gated = feedforward.activation, feedforward.gate is not None
        wide = [feedforward.up] if feedforward.gate is None else [feedforward.gate, feedforward.up]
        self.wide, self.narrow = pack(*_joined(wide)), pack(feedforward.down.weight, feedforward.down.bias)

    def whole(self, x_MD: Tensor, spread: Spread, mask: Mask | None, positions: Tensor) -> Tensor:
        """Run the block on whole sequences, flat [M,D]."""
        x_MD = self._around(0, x_MD, lambda x, residual: self.attention.whole(x, residual, spread, mask, positions))
        return self._around(-1, x_MD, self._feed)

    def prompt(self, x_MD: Tensor, rows: Rows, name: int, mask: Mask, positions: Tensor) -> Tensor:
        """Run the block on several new tokens of each path, flat [N·T,D]; for blocks without cross-attention."""
        own = rows.sub(f"{name}.self")
        x_MD = self._around(0, x_MD, lambda x, residual: self.attention.prompt(x, residual, own, mask, positions))
        return self._around(-1, x_MD, self._feed)

    def heads(self) -> list[Heads]:
        return [self.attention] if self.cross is None else [self.attention, self.cross]

    def products(self) -> list[Product]:
        """All products of a step."""
        return [*(part for heads in self.heads() for part in (heads.input, heads.output)), self.wide, self.narrow]

    def _around(self, number: int, x_MD: Tensor, sublayer: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        norm = self.norms[number]
        return sublayer(norm(x_MD), x_MD) if self.first else cast(Tensor, norm(sublayer(x_MD, x_MD)))

    def _feed(self, x_MD: Tensor, residual_MD: Tensor) -> Tensor:
        wide = self.wide(x_MD)
        if self.gated:
            gate, up = wide.chunk(2, -1)
            wide = activate(self.activation, gate) * up
        else:
            wide = activate(self.activation, wide)
        return self.narrow(wide, residual_MD)


def _joined(parts: list[nn.Linear]) -> tuple[Tensor, Tensor | None]:
    """The weights and biases of several layers with the same input, joined for one product."""
    if len(parts) == 1:
        return parts[0].weight, parts[0].bias
    weights: list[Tensor] = [part.weight for part in parts]
    if all(part.bias is None for part in parts):
        return torch.cat(weights), None
    biases = [part.weight.new_zeros(len(part.weight)) if part.bias is None else part.bias for part in parts]
    return torch.cat(weights), torch.cat(cast(list[Tensor], biases))
