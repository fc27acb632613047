"""Batches of rows of different lengths.

A batch holds rows × longest ≤ `tokens_per_batch` numbers, padding included, and at most `max_rows` rows; a row over the
budget makes a batch of one. Rows are shuffled, sorted by length within groups of about fifty batches, and cut into
batches, which are shuffled: little padding, and other neighbours in every epoch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from torch import Tensor

from regard.core.batch import Batch
from regard.core.errors import UsageError
from regard.data.chance import Dice, Ints
from regard.data.epochs import Epochs

_STRETCH = 50


class RowSource(Protocol):
    """Rows by number: the length of each, and the tensors of several together."""

    lengths: Ints

    def tensors(self, rows: Sequence[int]) -> dict[str, Tensor]: ...


class RowBatches(Epochs):
    """Every row is in exactly one batch of an epoch; `batch.rows` gives the rows.

    Without `shuffle` the batches are the same in each epoch, in order of length.
    """

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
        super().__init__(seed=seed, shuffle=shuffle)
        self.source, self.tokens_per_batch = source, tokens_per_batch
        self.max_rows = max_rows or len(source.lengths)

    def batch(self, rows: Ints, number: int) -> Batch:
        numbers = rows.tolist()
        return Batch(self.source.tensors(numbers), tuple(numbers))

    def plan(self, number: int) -> list[Ints]:
        lengths: Ints = np.maximum(np.asarray(self.source.lengths, dtype=np.int64), 1)
        if not self.shuffle:
            return self._cut(np.argsort(lengths, kind="stable"), lengths)
        dice = Dice(self.seed, number)
        order, size = dice.order(len(lengths)), self._stretch(lengths)
        stretches = [order[at : at + size] for at in range(0, len(order), size)]
        # Only a stable sort gives rows of equal length the same order on every processor.
        ordered = [rows[np.argsort(lengths[rows], kind="stable")] for rows in stretches]
        batches = [batch for rows in ordered for batch in self._cut(rows, lengths)]
        return [batches[turn] for turn in dice.order(len(batches))]

    def _stretch(self, lengths: Ints) -> int:
        rows = min(self.tokens_per_batch / float(lengths.mean() if len(lengths) else 1), self.max_rows)
        return max(1, int(_STRETCH * rows))

    def _cut(self, rows: Ints, lengths: Ints) -> list[Ints]:
        """Cut rows, sorted by length, into batches within the budget."""
        batches, begin = [], 0
        while begin < len(rows):
            most = max(1, min(self.max_rows, self.tokens_per_batch // int(lengths[rows[begin]])))
            held = lengths[rows[begin : begin + most]] * np.arange(1, len(rows[begin : begin + most]) + 1)
            end = begin + max(1, int(np.searchsorted(held, self.tokens_per_batch, side="right")))
            batches.append(rows[begin:end])
            begin = end
        return batches
