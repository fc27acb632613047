"""What a task promises: a loss to train by, and what can be read off a batch with teacher forcing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from torch import Tensor

from regard.core.batch import Batch
from regard.core.directions import Direction
from regard.core.measured import Measured


class Task:
    """One file in this folder defines one. Numbers that need decoding, or a whole data set, are evaluators'."""

    unit: ClassVar[str] = "tokens"
    """What `count` counts."""
    directions: ClassVar[Mapping[str, Direction]] = {"loss": "lower"}
    """The numbers that `summary` gives and a recipe may choose models by."""

    def count(self, batch: Batch) -> int:
        """How many items the loss of this batch is summed over."""
        return batch.size

    def loss(self, model: Any, batch: Batch) -> Tensor:
        """The loss summed over the batch's items."""
        raise NotImplementedError

    def measure(self, model: Any, batch: Batch) -> Measured:
        """What the batch shows, without smoothing and without a gradient."""
        raise NotImplementedError

    def summary(self, measured: Measured) -> dict[str, float]:
        """Numbers about all batches, "loss" among them; they do not depend on how rows were batched."""
        return measured.means()
