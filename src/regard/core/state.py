"""Decoding state: named tensors passed in and out of a model, never kept on a module.

Key-value caches and recurrent states share this one interface, so that beams can be reordered and finished rows can
leave without knowing which model runs, and one model can serve many requests at once. Dim 0 is the batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.core.errors import ShapeError, UnknownName


@dataclass
class _Cell:
    """One tensor; its buffer may have room past `length` along `dim`, so that growing by one copies nothing."""

    buffer: Tensor
    fixed: bool = False
    dim: int | None = None
    length: int = 0

    @property
    def tensor(self) -> Tensor:
        return self.buffer if self.dim is None else self.buffer.narrow(self.dim, 0, self.length)


class State:
    """Named tensors of one decoding run. `sub("encoder.0")` is the same state under a prefix."""

    def __init__(self, *, _cells: dict[str, _Cell] | None = None, _prefix: str = "") -> None:
        self._cells: dict[str, _Cell] = {} if _cells is None else _cells
        self._prefix = _prefix

    def sub(self, prefix: str) -> State:
        return State(_cells=self._cells, _prefix=f"{self._prefix}{prefix}.")

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._prefix + name in self._cells

    def __iter__(self) -> Iterator[str]:
        return (name.removeprefix(self._prefix) for name in self._cells if name.startswith(self._prefix))

    def __getitem__(self, name: str) -> Tensor:
        if name not in self:
            raise UnknownName("state tensor", self._prefix + name, self._cells)
        return self._cells[self._prefix + name].tensor

    def __setitem__(self, name: str, tensor: Tensor) -> None:
        self.put(name, tensor)

    def put(self, name: str, tensor: Tensor, *, fixed: bool = False) -> None:
        """Store a tensor. A `fixed` one is alike for all hypotheses of a row (the encoder's output, say): beams that
        change places leave it alone, and only a change in the number of rows moves it."""
        rows = self.rows
        if rows is not None and tensor.shape[0] != rows and self._others(name):
            raise ShapeError(f"state tensor {name!r} has another batch size", got=tensor.shape[0], expected=rows)
        self._cells[self._prefix + name] = _Cell(tensor, fixed)

    def extend(self, name: str, new: Tensor, *, dim: int = -2) -> Tensor:
        """Append along `dim` (time) and return everything so far."""
        dim = dim % new.dim()
        cell = self._cells.get(self._prefix + name)
        if cell is None or new.requires_grad or cell.buffer.requires_grad:
            whole = new if cell is None else torch.cat([cell.tensor, new], dim)
            self._cells[self._prefix + name] = _Cell(whole, dim=dim, length=whole.shape[dim])
            return whole
        if cell.dim is None:
            cell.dim, cell.length = dim, cell.buffer.shape[dim]
        self._grow(cell, cell.length + new.shape[dim], dim)
        cell.buffer.narrow(dim, cell.length, new.shape[dim]).copy_(new)
        cell.length += new.shape[dim]
        return cell.tensor

    @property
    def rows(self) -> int | None:
        """The batch size, or None while nothing is stored."""
        return next((cell.buffer.shape[0] for cell in self._cells.values()), None)

    def reorder(self, index: Tensor) -> None:
        """Row i becomes what row index[i] was (beams that live on); also repeats rows to open a beam."""
        same_rows = index.shape[0] == self.rows
        for cell in self._cells.values():
            if not (cell.fixed and same_rows):
                cell.buffer = cell.buffer.index_select(0, index)

    def select(self, rows: Tensor) -> None:
        """Keep only these rows (indices, or a boolean per row): finished ones leave the batch."""
        index = rows.nonzero().flatten() if rows.dtype == torch.bool else rows
        for cell in self._cells.values():
            cell.buffer = cell.buffer.index_select(0, index)

    def _others(self, name: str) -> bool:
        return any(known != self._prefix + name for known in self._cells)

    @staticmethod
    def _grow(cell: _Cell, needed: int, dim: int) -> None:
        if needed > cell.buffer.shape[dim]:
            shape = list(cell.buffer.shape)
            shape[dim] = max(2 * cell.length, needed, 16)
            grown = cell.buffer.new_empty(shape)
            grown.narrow(dim, 0, cell.length).copy_(cell.tensor)
            cell.buffer = grown
