"""Image classification, by cross-entropy over the model's logits."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from regard.core.batch import Batch
from regard.core.directions import Direction
from regard.core.measured import Measured
from regard.tasks._task import Task


class ImageClassification(Task):
    """Loss per image of `pixel_values` [B,C,H,W] against `labels` [B]."""

    unit = "images"
    directions: ClassVar[dict[str, Direction]] = {"loss": "lower", "accuracy": "higher"}

    def __init__(self, *, label_smoothing: float = 0.0) -> None:
        self.label_smoothing = label_smoothing

    def loss(self, model: Any, batch: Batch) -> Tensor:
        logits = model(pixel_values=batch["pixel_values"]).logits.float()
        smoothing = self.label_smoothing
        return functional.cross_entropy(logits, batch["labels"], reduction="sum", label_smoothing=smoothing)

    def measure(self, model: Any, batch: Batch) -> Measured:
        """The loss, the number of right answers, and the logits [C] of each image."""
        with torch.no_grad():
            logits, labels = model(pixel_values=batch["pixel_values"]).logits.double(), batch["labels"]
            loss = functional.cross_entropy(logits, labels, reduction="sum").item()
            right = float((logits.argmax(1) == labels).sum())
        return Measured(
            {"loss": loss, "accuracy": right},
            {"loss": batch.size, "accuracy": batch.size},
            dict(zip(batch.rows, logits, strict=True)),
            dict(zip(batch.rows, labels, strict=True)),
        )
