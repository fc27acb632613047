"""The protocol of a task: a loss for training, and measurements on a batch with teacher forcing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from torch import Tensor

from regard.core.batch import Batch
from regard.core.directions import Direction
from regard.core.measured import Measured


class Task:
    """Each file in this folder defines one. Metrics that need decoding or a whole data set are evaluators."""

    unit: ClassVar[str] = "tokens"
    """The unit of `count`."""
    directions: ClassVar[Mapping[str, Direction]] = {"loss": "lower"}
    """The metrics that `summary` returns; a recipe may select models by them."""

    def count(self, batch: Batch) -> int:
        """The number of items over which the loss of this batch is summed."""
        return batch.size

    def loss(self, model: Any, batch: Batch) -> Tensor:
        """The loss summed over the batch's items."""
        raise NotImplementedError

    def measure(self, model: Any, batch: Batch) -> Measured:
        """Measure the batch, without smoothing and without gradients."""
        raise NotImplementedError

    def summary(self, measured: Measured) -> dict[str, float]:
        """Metrics over all batches, "loss" among them; they do not depend on how rows were batched."""
        return measured.means()
