"""Questions about images, by cross-entropy over the answers.

A row of a batch is an image with N questions (`data/asked_images.py`); a missing question has the label −100. The
model's own loss for a row (`penalty`), such as the triplet loss of differential attention, is added.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from regard.core.batch import Batch
from regard.core.directions import Direction
from regard.core.measured import Measured
from regard.core.output import Output
from regard.tasks._task import Task


class VisualQuestionAnswering(Task):
    """Loss per question."""

    unit = "questions"
    directions: ClassVar[dict[str, Direction]] = {"loss": "lower", "accuracy": "higher"}

    def __init__(self, *, label_smoothing: float = 0.0) -> None:
        self.label_smoothing = label_smoothing

    def count(self, batch: Batch) -> int:
        return int((batch["labels"] >= 0).sum())

    def loss(self, model: Any, batch: Batch) -> Tensor:
        output = self.run(model, batch)
        assert output.logits is not None
        logits, labels = output.logits.float().flatten(0, 1), batch["labels"].flatten()
        loss = functional.cross_entropy(logits, labels, reduction="sum", label_smoothing=self.label_smoothing)
        return loss if output.penalty is None else loss + output.penalty.float().sum()

    def measure(self, model: Any, batch: Batch) -> Measured:
        """The loss, the number of right answers, and the logits [C] of each question, by its number in the file."""
        with torch.no_grad():
            logits_BNC = self.run(model, batch).logits
            assert logits_BNC is not None
            real_BN = batch["labels"] >= 0
            logits, labels = logits_BNC[real_BN].double(), batch["labels"][real_BN]
            loss = functional.cross_entropy(logits, labels, reduction="sum").item()
            right = float((logits.argmax(1) == labels).sum())
        numbers, count = batch["numbers"][real_BN].tolist(), len(labels)
        return Measured(
            {"loss": loss, "accuracy": right},
            {"loss": count, "accuracy": count},
            dict(zip(numbers, logits, strict=True)),
            dict(zip(numbers, labels, strict=True)),
        )

    def run(self, model: Any, batch: Batch) -> Output:
        seen = {name: batch[name] for name in ("pixel_values", "input_ids", "attention_mask")}
        output: Output = model(**seen)
        return output
