"""Running text in parallel streams, for recurrent models that carry their state from batch to batch.

The text is cut into `streams` equal parts, which are read in parallel: row r of a batch continues where row r of the
batch before ended. Tokens that are left over at the end of the text are not read. Every epoch is the same.
"""

from __future__ import annotations

import numpy as np
import torch

from regard.core.batch import Batch
from regard.core.errors import DataError
from regard.data.arrays import Array
from regard.data.chance import Ints
from regard.data.epochs import Epochs


class Streams(Epochs):
    """Batches with `input_ids`, `labels` [B,T] and `fresh` [B]: whether a row begins its stream."""

    def __init__(self, tokens: Array, *, context: int, streams: int) -> None:
        assert context > 0
        super().__init__(seed=0, shuffle=False)
        self.tokens, self.context, self.streams = tokens, context, streams
        self.length = (len(tokens) - 1) // streams
        if self.length == 0:
            raise DataError("the text is too short for so many streams", got=f"{len(tokens)} tokens", expected=streams)

    def plan(self, number: int) -> list[Ints]:
        """The first position of each row, by batch."""
        first = np.arange(self.streams, dtype=np.int64) * self.length
        return [first + begin for begin in range(0, self.length, self.context)]

    def batch(self, rows: Ints, number: int) -> Batch:
        begins: list[int] = rows.tolist()
        length = min(self.context, self.length - begins[0] % self.length)
        windows = np.stack([self.tokens[begin : begin + length + 1] for begin in begins]).astype(np.int64)
        ids, fresh = torch.from_numpy(windows), torch.from_numpy(rows % self.length == 0)
        return Batch({"input_ids": ids[:, :-1], "labels": ids[:, 1:], "fresh": fresh}, tuple(begins))
