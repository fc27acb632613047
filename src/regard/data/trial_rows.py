"""The numbers of held-out environments, in batches."""

from __future__ import annotations

import numpy as np
import torch

from regard.core.batch import Batch
from regard.data.chance import Ints
from regard.data.epochs import Epochs


class TrialRows(Epochs):
    """Batches of `numbers` [B], from 0 to `count` − 1, always in this order."""

    def __init__(self, count: int, *, rows: int, seed: int) -> None:
        super().__init__(seed=seed, shuffle=False)
        self.count, self.rows = count, rows

    def plan(self, number: int) -> list[Ints]:
        return [np.arange(at, min(at + self.rows, self.count)) for at in range(0, self.count, self.rows)]

    def batch(self, rows: Ints, number: int) -> Batch:
        return Batch({"numbers": torch.from_numpy(rows)}, tuple(rows.tolist()))
