"""Running text in long passages, in the order of the text: for models that count, or have their own training loop."""

from __future__ import annotations

import numpy as np
import torch

from regard.core.batch import Batch
from regard.data.arrays import Array
from regard.data.chance import Ints
from regard.data.epochs import Epochs


class Passages(Epochs):
    """Batches with `tokens` [T] (int32), at most `length` of them; every epoch is the same."""

    def __init__(self, tokens: Array, *, length: int) -> None:
        assert length > 0
        super().__init__(seed=0, shuffle=False)
        self.tokens, self.length = tokens, length

    def plan(self, number: int) -> list[Ints]:
        begins = np.arange(0, len(self.tokens), self.length, dtype=np.int64)
        return [begins[k : k + 1] for k in range(len(begins))]

    def batch(self, rows: Ints, number: int) -> Batch:
        begin = int(rows[0])
        return Batch({"tokens": torch.from_numpy(self.tokens[begin : begin + self.length].astype(np.int32))})
