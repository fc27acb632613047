"""A table of rows by position that grows with longer inputs. It is computed, never saved, and has no length limit."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from regard.core.devices import HOST


class GrowingTable:
    """`rows(positions)` returns the rows that `make(positions)` computes. Computed rows are kept."""

    def __init__(self, make: Callable[[Tensor], Tensor]) -> None:
        self._make = make
        self._table: Tensor | None = None

    def rows(self, positions: Tensor, dtype: torch.dtype) -> Tensor:
        needed = int(positions.max()) + 1 if positions.numel() else 1
        # Read the attribute once: another thread may replace the table meanwhile, by a longer or a shorter one.
        table = self._table
        if table is None or needed > len(table):
            known = 0 if table is None else len(table)
            table = self._table = self._make(torch.arange(max(needed, 2 * known, 64), device=HOST))
        return table.to(dtype=dtype, device=positions.device)[positions]
