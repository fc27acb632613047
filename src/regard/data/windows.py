"""Windows of running text: row i is `context` tokens, and as labels the same tokens one further on.

An epoch is the whole text in windows that do not overlap, from a start that is drawn anew for each, in random order;
both follow from the seed and the epoch's number and from nothing else. Without `shuffle` it is the whole text in order,
the shorter last window included: every token but the first is asked for once.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from regard.core.batch import Batch
from regard.core.errors import UsageError
from regard.data.arrays import Array
from regard.data.chance import Dice, Ints


class Windows:
    """Batches of `rows` windows with `input_ids` and `labels` [B,T]; `batch.rows` tells where each window begins."""

    def __init__(self, tokens: Array, *, context: int, rows: int, seed: int, shuffle: bool = True) -> None:
        assert context > 0
        assert rows > 0
        assert len(tokens) > 1
        if not 0 <= seed < 2**64:
            raise UsageError("the seed is out of range", got=seed, expected="0 to 2^64 - 1")
        self.tokens, self.context, self.rows, self.seed, self.shuffle = tokens, context, rows, seed, shuffle
        self._latest: tuple[int, list[Ints]] | None = None

    def batches_in_epoch(self, number: int) -> int:
        return len(self._plan(number))

    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        """The batches of an epoch from batch `start` on."""
        plan = self._plan(number)
        if not 0 <= start <= len(plan):
            raise UsageError(f"epoch {number} has no batch {start}", expected=f"0 to {len(plan)}")
        return (self._batch(begins) for begins in plan[start:])

    def _batch(self, begins: Ints) -> Batch:
        length = min(self.context, len(self.tokens) - 1 - int(begins[-1]))
        windows = np.stack([self.tokens[begin : begin + length + 1] for begin in begins.tolist()]).astype(np.int64)
        ids = torch.from_numpy(windows)
        return Batch({"input_ids": ids[:, :-1], "labels": ids[:, 1:]}, tuple(begins.tolist()))

    def _plan(self, number: int) -> list[Ints]:
        if not 0 <= number < 2**64:
            raise UsageError("no such epoch", got=number, expected="0, 1, 2, …")
        if self._latest is None or self._latest[0] != number:
            self._latest = (number, self._shuffled(number) if self.shuffle else self._in_order())
        return self._latest[1]

    def _shuffled(self, number: int) -> list[Ints]:
        dice, asked = Dice(self.seed, number), len(self.tokens) - 1
        if asked <= self.context:
            return [np.zeros(1, dtype=np.int64)]
        # A text that is hardly longer than a window still gives one.
        first = int(dice.share() * min(self.context, asked - self.context + 1))
        count = (asked - first) // self.context
        return self._cut(first + self.context * dice.order(count))

    def _in_order(self) -> list[Ints]:
        asked = len(self.tokens) - 1
        whole = self._cut(np.arange(asked // self.context, dtype=np.int64) * self.context)
        rest = asked % self.context
        return [*whole, *([np.array([asked - rest], dtype=np.int64)] if rest else [])]

    def _cut(self, begins: Ints) -> list[Ints]:
        return [begins[at : at + self.rows] for at in range(0, len(begins), self.rows)]
