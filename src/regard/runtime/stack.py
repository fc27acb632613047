"""Blocks with packed products: what a step costs is the products and the attention, and little else.

A block of `layers.block` is taken apart into its weights once. Query, key and value become one product; a residual is
added by the product before it; rows are flat [N,D]. The attention of one new token of each path runs in the compiled
kernel over the state's own memory; whole sequences and prompts take `attend`, as the model does.
"""

from __future__ import annotations

import ctypes
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
from regard.runtime.native import Attention, Kernels, Part
from regard.runtime.products import Product

Pack = Callable[[Tensor, Tensor | None], Product]


def why_not(block: nn.Module) -> str | None:
    """What keeps a block from being prepared; None: nothing does."""
    if not isinstance(block, EncoderBlock | DecoderBlock) or not isinstance(block.feedforward, FeedForward):
        return f"a block of the kind {type(block).__name__}"
    residuals = [part for part in block.children() if isinstance(part, Residual)]
    if any(not isinstance(part.norm, nn.LayerNorm | nn.RMSNorm | nn.Identity) for part in residuals):
        return f"norms of the kind {type(residuals[0].norm).__name__}"
    for heads in (part for part in block.children() if isinstance(part, MultiHead)):
        if not isinstance(heads.score, ScaledDot | Dot) or not heads.chooser.fused:
            return "scores other than inner products with a softmax"
        if heads.position is not None and heads.position.biased:
            return "positions that act on the scores"
    return None


class Spread:
    """Rows of sequences [B,T], of which only the real tokens are kept [M]: products then do no work for padding."""

    def __init__(self, n_rows: int, length: int, real_BT: Tensor | None) -> None:
        self.n_rows, self._length, self._places_M = n_rows, length, None
        if real_BT is not None and not bool(real_BT.all()):
            self._places_M = real_BT.flatten().nonzero()[:, 0]

    def back(self, x: Tensor) -> Tensor:
        """[B·T,D] → [M,D]"""
        return x if self._places_M is None else x.index_select(0, self._places_M)

    def out(self, x_MD: Tensor) -> Tensor:
        """[M,D] → [B·T,D], with zeros in place of padding"""
        if self._places_M is None:
            return x_MD
        return x_MD.new_zeros(self.n_rows * self._length, x_MD.shape[1]).index_copy_(0, self._places_M, x_MD)


class Heads:
    """The weights of a `MultiHead`. `memory` says whether its keys and values come from elsewhere."""

    def __init__(self, heads: MultiHead, pack: Pack, kernels: Kernels, *, memory: bool = False) -> None:
        self._heads, self._kernels = heads, kernels
        self._n, self._n_kv, self._width = heads.n_heads, heads.n_kv_heads, heads.d_head
        parts = [heads.query] if memory else [heads.query, heads.key, heads.value]
        self._input = pack(*_joined(parts))
        self._memory = pack(*_joined([heads.key, heads.value])) if memory else None
        self._output = pack(heads.output.weight, heads.output.bias)
        nothing = torch.zeros(1, 1, 1, self._width)
        form = heads.score.as_dot(nothing, nothing)
        assert form is not None
        self._scale = form[2]

    def prepare(self, memory_MD: Tensor, rows: int) -> list[Tensor]:
        """Keys and values [R,G,S,E] of a memory, which comes flat."""
        assert self._memory is not None
        both = self._memory(memory_MD).view(rows, -1, 2 * self._n_kv, self._width).transpose(1, 2)
        return list(both.split(self._n_kv, 1))

    def whole(self, x_MD: Tensor, residual_MD: Tensor, spread: Spread, mask: Mask | None, positions: Tensor) -> Tensor:
        """Self-attention of whole sequences."""
        query, keys, values = self._split(spread.out(self._input(x_MD)), spread.n_rows, positions)
        attended = attend(query, keys, values, score=self._heads.score, mask=mask, site=None)
        return self._output(spread.back(attended.context.transpose(1, 2).flatten(2).flatten(0, 1)), residual_MD)

    def step(self, x_ND: Tensor, residual_ND: Tensor, rows: Rows, positions: Tensor, reach: int | None) -> Tensor:
        """Self-attention of one new token of each path."""
        query, keys, values = self._split(self._input(x_ND), len(x_ND), positions)
        room = [rows.room(name, self._n_kv, self._width, like=keys) for name in ("keys", "values")]
        last_N = rows.starts_N + 1
        first_N = None if reach is None else (last_N - reach).clamp_min(0)
        return self._run(query, (keys, values), room, rows.paths_N, first_N, last_N, None, rows.n_keys, residual_ND)

    def prompt(self, x_MD: Tensor, residual_MD: Tensor, rows: Rows, mask: Mask, positions: Tensor) -> Tensor:
        """Self-attention of several new tokens of each path."""
        query, keys, values = self._split(self._input(x_MD), len(rows.paths_N), positions)
        keys, values = rows.extend("keys", keys), rows.extend("values", values)
        attended = attend(query, keys, values, score=self._heads.score, mask=mask, site=None)
        return self._output(attended.context.transpose(1, 2).flatten(2).flatten(0, 1), residual_MD)

    def cross(self, x_ND: Tensor, residual_ND: Tensor, rows: Rows, name: str, sources_N: Tensor) -> Tensor:
        """Attention of each path to its source."""
        query = self._input(x_ND).view(len(x_ND), self._n, 1, self._width)
        room = [rows.source_room(f"{name}.{part}") for part in ("keys", "values")]
        allowed, length = rows.source_room("source_mask"), room[0].shape[2]
        last_N = torch.full_like(sources_N, length)
        return self._run(query, None, room, sources_N, None, last_N, allowed, length, residual_ND)

    def _split(self, every_MD: Tensor, n_rows: int, positions: Tensor) -> list[Tensor]:
        every = every_MD.view(n_rows, -1, self._n + 2 * self._n_kv, self._width).transpose(1, 2)
        query, keys, values = every.split([self._n, self._n_kv, self._n_kv], 1)
        position = self._heads.position
        if position is not None:
            query, keys = position.rotate(query, positions), position.rotate(keys, positions)
        return [query, keys, values]

    def _run(
        self,
        query: Tensor,
        new: tuple[Tensor, Tensor] | None,
        room: list[Tensor],
        slots_N: Tensor,
        first_N: Tensor | None,
        last_N: Tensor,
        allowed: Tensor | None,
        longest: int,
        residual_ND: Tensor,
    ) -> Tensor:
        n = len(query)
        context = query.new_empty(n, self._n * self._width)
        weights = query.new_empty(n * self._n * longest)
        keys, values = new or (None, None)
        self._kernels.attend_paths(
            ctypes.byref(
                Attention(
                    _part(query), _part(keys), _part(values), _part(room[0]), _part(room[1]),
                    context.data_ptr(), weights.data_ptr(), slots_N.data_ptr(),
                    None if first_N is None else first_N.data_ptr(), last_N.data_ptr(),
                    None if allowed is None else allowed.data_ptr(), 0 if allowed is None else allowed.stride(0),
                    n, self._n, self._n_kv, self._width, longest, self._scale,
                )
            )
        )  # fmt: skip
        return self._output(context, residual_ND)


class Block:
    """An `EncoderBlock` or `DecoderBlock`."""

    def __init__(self, block: EncoderBlock | DecoderBlock, pack: Pack, kernels: Kernels) -> None:
        self.attention = Heads(block.self, pack, kernels)
        self.cross = Heads(block.cross, pack, kernels, memory=True) if isinstance(block, DecoderBlock) else None
        around = [part for part in block.children() if isinstance(part, Residual)]
        self._norms = [part.norm for part in around]
        self._first = around[0].order == "pre"
        feedforward = cast(FeedForward, block.feedforward)
        self._activation, self._gated = feedforward.activation, feedforward.gate is not None
        wide = [feedforward.up] if feedforward.gate is None else [feedforward.gate, feedforward.up]
        self._wide, self._narrow = pack(*_joined(wide)), pack(feedforward.down.weight, feedforward.down.bias)

    def whole(self, x_MD: Tensor, spread: Spread, mask: Mask | None, positions: Tensor) -> Tensor:
        """The block over whole sequences, flat [M,D]."""
        x_MD = self._around(0, x_MD, lambda x, residual: self.attention.whole(x, residual, spread, mask, positions))
        return self._around(-1, x_MD, self._feed)

    def prompt(self, x_MD: Tensor, rows: Rows, name: int, mask: Mask, positions: Tensor) -> Tensor:
        """The block for several new tokens of each path, flat [N·T,D]; for blocks without cross-attention."""
        own = rows.sub(f"{name}.self")
        x_MD = self._around(0, x_MD, lambda x, residual: self.attention.prompt(x, residual, own, mask, positions))
        return self._around(-1, x_MD, self._feed)

    def step(
        self, x_ND: Tensor, rows: Rows, name: int, positions: Tensor, reach: int | None, sources_N: Tensor | None
    ) -> Tensor:
        """The block for one new token of each path [N,D]."""
        own = rows.sub(f"{name}.self")
        x_ND = self._around(0, x_ND, lambda x, residual: self.attention.step(x, residual, own, positions, reach))
        cross = self.cross
        if cross is not None:
            assert sources_N is not None
            site = f"{name}.cross"
            x_ND = self._around(1, x_ND, lambda x, residual: cross.cross(x, residual, rows, site, sources_N))
        return self._around(-1, x_ND, self._feed)

    def _around(self, number: int, x_MD: Tensor, sublayer: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        norm = self._norms[number]
        return sublayer(norm(x_MD), x_MD) if self._first else cast(Tensor, norm(sublayer(x_MD, x_MD)))

    def _feed(self, x_MD: Tensor, residual_MD: Tensor) -> Tensor:
        wide = self._wide(x_MD)
        if self._gated:
            gate, up = wide.chunk(2, -1)
            wide = activate(self._activation, gate) * up
        else:
            wide = activate(self._activation, wide)
        return self._narrow(wide, residual_MD)


def _joined(parts: list[nn.Linear]) -> tuple[Tensor, Tensor | None]:
    """Several products of one input as one."""
    if len(parts) == 1:
        return parts[0].weight, parts[0].bias
    weights: list[Tensor] = [part.weight for part in parts]
    if all(part.bias is None for part in parts):
        return torch.cat(weights), None
    biases = [part.weight.new_zeros(len(part.weight)) if part.bias is None else part.bias for part in parts]
    return torch.cat(weights), torch.cat(cast(list[Tensor], biases))


def _part(x: Tensor | None) -> Part:
    """A tensor [rows, heads, tokens, E] for the kernel."""
    return Part(None, 0, 0) if x is None else Part(x.data_ptr(), x.stride(0), x.stride(1))
