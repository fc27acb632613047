"""A step of a model as one call: the list of operations that `native/kernels.c` runs for one new token of each path.

The list is made once. A step only updates the values that change (the addresses of the state's keys and values, the
lengths of the paths) and calls the compiled loop, so that its cost is that of its products and its attention, without
Python calls for each operation. All operations work on buffers with a row for each path:

    x        the input and output of blocks; a product adds the residual to its result
    normed   the input of a sub-layer
    wide     query, keys and values, or the hidden layer of the feed-forward network
    gated    the gated hidden layer, half as wide
    context  the result of attention
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from regard.attention.positions.rotary import Rotary
from regard.core.state import Rows
from regard.runtime.native import Kernels, Operation, Part
from regard.runtime.products import Product

if TYPE_CHECKING:
    from regard.runtime.stack import Block, Heads

NORM, PRODUCT, ATTEND, ACTIVATE, GATE, ROTATE = range(6)
_ACTIVATIONS = {"relu": 0, "gelu": 1, "gelu_tanh": 2, "quick_gelu": 3, "silu": 4, "swiglu": 4, "tanh": 5}
_PAIRS = {"neighbours": 0, "halves": 1}


class Program:
    """The decoder blocks, the last norm and the output layer of a model."""

    def __init__(self, blocks: Sequence[Block], norm: nn.Module, output: Product, kernels: Kernels) -> None:
        self._blocks, self._norm, self._output, self._kernels = blocks, norm, output, kernels
        self._rows = self._longest = 0
        self._operations: ctypes.Array[Operation] = (Operation * 0)()
        self._self: list[Operation] = []
        self._cross: list[Operation] = []
        self._turns: list[tuple[Rotary, Operation]] = []

    def __call__(
        self,
        x_ND: Tensor,
        rows: Rows,
        positions: Tensor,
        reach: int | None,
        sources_N: Tensor | None,
        output: Product,
    ) -> Tensor:
        """Logits [N,V] of this output layer after one new token of each path; x are the vectors of the new tokens."""
        self._make_room(len(x_ND), rows, sources_N)
        self._x[: len(x_ND)] = x_ND
        last_N = rows.starts_N + 1
        first_N = None if reach is None else (last_N - reach).clamp_min(0)
        for index, operation in enumerate(self._self):
            heads = self._blocks[index].attention
            for name in ("keys", "values"):
                buffer = rows.room(f"{index}.self.{name}", heads.n_kv, heads.width, like=x_ND)
                setattr(operation.attention, name, _part(buffer))
            operation.attention.slots, operation.attention.last = rows.paths_N.data_ptr(), last_N.data_ptr()
            operation.attention.first = None if first_N is None else first_N.data_ptr()
        if sources_N is not None:
            allowed = rows.source_room("source_mask")
            last_source_N = torch.full_like(sources_N, allowed.shape[1])
            self._set_sources(rows, sources_N, last_source_N, allowed)
        # The operations hold only the addresses of these tensors, so this function keeps the tensors alive.
        turns = {rotary: rotary.turns(positions, torch.float32).contiguous() for rotary, _ in self._turns}
        for rotary, operation in self._turns:
            angles = turns[rotary]
            operation.weights = angles.data_ptr()
            operation.attention.allowed_row = 0 if len(angles) == 1 else angles[0].numel()
        logits = x_ND.new_empty(len(x_ND), output.n)
        last = self._operations[len(self._operations) - 1]
        last.n, last.y = output.n, logits.data_ptr()
        last.weights, last.scales, last.offsets, last.bias = output.places
        self._kernels.run_step(self._operations, len(self._operations), len(x_ND))
        return logits

    def _set_sources(self, rows: Rows, sources_N: Tensor, last_N: Tensor, allowed: Tensor) -> None:
        for index, operation in enumerate(self._cross):
            attention = operation.attention
            for name in ("keys", "values"):
                setattr(attention, name, _part(rows.source_buffer(f"{index}.cross.{name}")))
            attention.slots, attention.last = sources_N.data_ptr(), last_N.data_ptr()
            attention.allowed, attention.allowed_row = allowed.data_ptr(), allowed.stride(0)

    def _make_room(self, n_rows: int, rows: Rows, sources_N: Tensor | None) -> None:
        """Make buffers for this many rows and keys, and the operations on them, unless the present ones are enough."""
        longest = rows.n_keys if sources_N is None else max(rows.n_keys, rows.source_room("source_mask").shape[1])
        if n_rows <= self._rows and longest <= self._longest:
            return
        self._rows, self._longest = max(n_rows, self._rows), max(2 * longest, self._longest)
        products = [product for block in self._blocks for product in block.products()] + [self._output]
        heads = [heads for block in self._blocks for heads in block.heads()]
        d_model = self._output.k
        self._x, self._normed = (torch.empty(self._rows, d_model) for _ in range(2))
        self._wide = torch.empty(self._rows, max(product.n for product in products[:-1]))
        self._gated = torch.empty(self._rows, max(block.narrow.k if block.gated else 0 for block in self._blocks))
        self._context = torch.empty(self._rows, max(part.n * part.width for part in heads))
        self._weights = torch.empty(self._rows * max(part.n for part in heads) * self._longest)
        self._room = torch.empty(self._rows * max(product.room for product in products), dtype=torch.uint8)
        self._self, self._cross, self._turns = [], [], []
        made = [operation for block in self._blocks for operation in self._of_block(block)]
        last = self._normalise(self._norm, self._x, self._normed)
        made += [*last, self._multiply(self._output, self._normed if last else self._x, None, None)]
        self._operations = (Operation * len(made))(*made)
        self._place(made)

    def _place(self, made: Sequence[Operation]) -> None:
        """Replace the operations that change from step to step by their copies in the ctypes array."""
        copies = dict(zip(map(id, made), self._operations, strict=True))
        self._self, self._cross = ([copies[id(o)] for o in part] for part in (self._self, self._cross))
        self._turns = [(rotary, copies[id(o)]) for rotary, o in self._turns]

    def _of_block(self, block: Block) -> list[Operation]:
        def around(number: int, sublayer: list[Operation]) -> list[Operation]:
            norm = self._normalise(block.norms[number], self._x, self._normed if block.first else self._x)
            return [*norm, *sublayer] if block.first else [*sublayer, *norm]

        def read(number: int) -> Tensor:
            """The input of a sub-layer: x itself unless a norm comes before it."""
            return self._normed if block.first and not isinstance(block.norms[number], nn.Identity) else self._x

        made = around(0, self._attend(block.attention, read(0), self._self))
        if block.cross is not None:
            made += around(1, self._attend(block.cross, read(1), self._cross))
        wide, narrow, form = block.wide, block.narrow, _ACTIVATIONS[block.activation]
        kind, inner = (GATE, self._gated) if block.gated else (ACTIVATE, self._wide)
        feed = [
            self._multiply(wide, read(-1), self._wide, None),
            self._operation(kind, form, self._wide, inner, wide.n, narrow.k),
            self._multiply(narrow, inner, self._x, self._x),
        ]
        return made + around(-1, feed)

    def _attend(self, heads: Heads, x: Tensor, kind: list[Operation]) -> list[Operation]:
        made = [self._multiply(heads.input, x, self._wide, None)]
        position = heads.position
        if isinstance(position, Rotary) and kind is self._self:
            turned = (heads.n + heads.n_kv) * heads.width
            made.append(self._operation(ROTATE, _PAIRS[position.pairs], self._wide, self._wide, heads.width, turned))
            made[-1].attention.longest = heads.input.n
            self._turns.append((position, made[-1]))
        attend = self._operation(ATTEND, 0, self._wide, self._context, 0, 0)
        row, attention = heads.input.n, attend.attention
        parts = {"query": 0}
        if kind is self._self:
            parts |= {"new_keys": heads.n * heads.width, "new_values": (heads.n + heads.n_kv) * heads.width}
        for name, start in parts.items():
            setattr(attention, name, Part(self._wide.data_ptr() + 4 * start, row, heads.width))
        attention.context, attention.room = self._context.data_ptr(), self._weights.data_ptr()
        attention.heads, attention.key_heads, attention.width = heads.n, heads.n_kv, heads.width
        attention.longest, attention.scale = self._longest, heads.scale
        kind.append(attend)
        return [*made, attend, self._multiply(heads.output, self._context, self._x, self._x)]

    def _normalise(self, norm: nn.Module, x: Tensor, y: Tensor) -> list[Operation]:
        if isinstance(norm, nn.Identity):
            return []
        assert isinstance(norm, nn.LayerNorm | nn.RMSNorm)
        made = self._operation(NORM, isinstance(norm, nn.RMSNorm), x, y, x.shape[1], x.shape[1])
        made.weights = None if norm.weight is None else norm.weight.data_ptr()
        bias: Any = getattr(norm, "bias", None)
        made.bias = None if bias is None else bias.data_ptr()
        made.eps = torch.finfo(torch.float32).eps if norm.eps is None else norm.eps
        return [made]

    def _multiply(self, product: Product, x: Tensor, y: Tensor | None, residual: Tensor | None) -> Operation:
        made = self._operation(PRODUCT, product.form, x, y, product.k, product.n)
        made.weights, made.scales, made.offsets, made.bias = product.places
        made.residual = None if residual is None else residual.data_ptr()
        made.room = self._room.data_ptr()
        return made

    def _operation(self, kind: int, form: int, x: Tensor, y: Tensor | None, k: int, n: int) -> Operation:
        made = Operation(kind=kind, form=form, k=k, n=n)
        made.x, made.y = x.data_ptr(), None if y is None else y.data_ptr()
        return made


def _part(x: Tensor) -> Part:
    """A tensor [rows, heads, tokens, E] for the kernel."""
    return Part(x.data_ptr(), x.stride(0), x.stride(1))
