"""Windows of running text: row i is `context` tokens, and its labels are the same tokens shifted by one.

An epoch is the whole text in windows that do not overlap, from a random start, in random order. Without `shuffle` it is
the whole text in order, the shorter last window included: every token but the first is predicted once.
"""

from __future__ import annotations

import numpy as np
import torch

from regard.core.batch import Batch
from regard.data.arrays import Array
from regard.data.chance import Dice, Ints
from regard.data.epochs import Epochs


class Windows(Epochs):
    """Batches of `rows` windows with `input_ids` and `labels` [B,T]; `batch.rows` are the windows' first positions."""

    def __init__(self, tokens: Array, *, context: int, rows: int, seed: int, shuffle: bool = True) -> None:
        assert context > 0
        assert rows > 0
        assert len(tokens) > 1
        super().__init__(seed=seed, shuffle=shuffle)
        self.tokens, self.context, self.rows = tokens, context, rows

    def plan(self, number: int) -> list[Ints]:
        """The first position of each window, by batch; it is also the window's row number."""
        return self._shuffled(number) if self.shuffle else self._in_order()

    def batch(self, rows: Ints, number: int) -> Batch:
        begins: list[int] = rows.tolist()
        length = min(self.context, len(self.tokens) - 1 - begins[-1])
        windows = np.stack([self.tokens[begin : begin + length + 1] for begin in begins]).astype(np.int64)
        ids = torch.from_numpy(windows)
        return Batch({"input_ids": ids[:, :-1], "labels": ids[:, 1:]}, tuple(begins))

    def _shuffled(self, number: int) -> list[Ints]:
        dice, asked = Dice(self.seed, number), len(self.tokens) - 1
        if asked <= self.context:
            return [np.zeros(1, dtype=np.int64)]
        # A text that is barely longer than a window still gives one window.
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
