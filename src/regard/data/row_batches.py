"""Batches of rows of different lengths, in an order that follows from the seed and the epoch's number and nothing else.

So a run that stops inside an epoch goes on with `epoch(number, start=k)`. A batch holds rows × longest ≤
`tokens_per_batch` numbers, padding included, and at most `max_rows` rows; a row over the budget makes a batch of one.
Rows are shuffled, sorted by length inside stretches of some fifty batches, cut, and the batches shuffled: little
padding, and other neighbours in every epoch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
from torch import Tensor

from regard.core.batch import Batch
from regard.core.errors import UsageError
from regard.data.chance import Dice, Ints

_STRETCH = 50


class RowSource(Protocol):
    """Rows by number: how long each is, and the tensors of some of them together."""

    lengths: Ints

    def tensors(self, rows: Sequence[int]) -> dict[str, Tensor]: ...


class RowBatches:
    """Without `shuffle` the batches are the same in each epoch, in order of length; `batch.rows` tells the rows."""

    def __init__(
        self,
        source: RowSource,
        *,
        tokens_per_batch: int,
        seed: int = 0,
        max_rows: int | None = None,
        shuffle: bool = True,
    ) -> None:
        if tokens_per_batch < 1:
            raise UsageError("tokens_per_batch is too small", got=tokens_per_batch, expected="1 or more")
        if not 0 <= seed < 2**64:
            raise UsageError("the seed is out of range", got=seed, expected="0 to 2^64 - 1")
        self.source, self.tokens_per_batch, self.seed, self.shuffle = source, tokens_per_batch, seed, shuffle
        self.max_rows = max_rows or len(source.lengths)
        self._latest: tuple[int, list[Ints]] | None = None

    def batches_in_epoch(self, number: int) -> int:
        return len(self._plan(number))

    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        """The batches of an epoch from batch `start` on; every row is in exactly one of them."""
        plan = self._plan(number)
        if not 0 <= start <= len(plan):
            raise UsageError(f"epoch {number} has no batch {start}", expected=f"0 to {len(plan)}")
        return (self._batch(rows.tolist()) for rows in plan[start:])

    def _batch(self, rows: list[int]) -> Batch:
        return Batch(self.source.tensors(rows), tuple(rows))

    def _plan(self, number: int) -> list[Ints]:
        if not 0 <= number < 2**64:
            raise UsageError("no such epoch", got=number, expected="0, 1, 2, …")
        if self._latest is None or self._latest[0] != number:
            self._latest = (number, self._planned(Dice(self.seed, number) if self.shuffle else None))
        return self._latest[1]

    def _planned(self, dice: Dice | None) -> list[Ints]:
        lengths: Ints = np.maximum(np.asarray(self.source.lengths, dtype=np.int64), 1)
        if dice is None:
            return self._cut(np.argsort(lengths, kind="stable"), lengths)
        order, size = dice.order(len(lengths)), self._stretch(lengths)
        stretches = [order[at : at + size] for at in range(0, len(order), size)]
        batches = [batch for rows in stretches for batch in self._cut(rows[np.argsort(lengths[rows])], lengths)]
        return [batches[turn] for turn in dice.order(len(batches))]

    def _stretch(self, lengths: Ints) -> int:
        rows = min(self.tokens_per_batch / float(lengths.mean() if len(lengths) else 1), self.max_rows)
        return max(1, int(_STRETCH * rows))

    def _cut(self, rows: Ints, lengths: Ints) -> list[Ints]:
        """Rows of rising length in batches within the budget."""
        batches, begin = [], 0
        while begin < len(rows):
            most = max(1, min(self.max_rows, self.tokens_per_batch // int(lengths[rows[begin]])))
            held = lengths[rows[begin : begin + most]] * np.arange(1, len(rows[begin : begin + most]) + 1)
            end = begin + max(1, int(np.searchsorted(held, self.tokens_per_batch, side="right")))
            batches.append(rows[begin:end])
            begin = end
        return batches
