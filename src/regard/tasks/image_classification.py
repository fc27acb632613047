"""Image classification: which of the classes an image shows, by cross-entropy over the model's logits."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from regard.core.batch import Batch


class ImageClassification:
    """Loss per image of `pixel_values` [B,C,H,W] against `labels` [B]."""

    unit = "images"

    def __init__(self, *, label_smoothing: float = 0.0) -> None:
        self.label_smoothing = label_smoothing

    def count(self, batch: Batch) -> int:
        return batch.size

    def loss(self, model: Any, batch: Batch) -> Tensor:
        logits = model(pixel_values=batch["pixel_values"]).logits.float()
        smoothing = self.label_smoothing
        return functional.cross_entropy(logits, batch["labels"], reduction="sum", label_smoothing=smoothing)

    def judged(self, model: Any, batch: Batch) -> tuple[float, int]:
        """The loss without smoothing, and how many are right."""
        with torch.no_grad():
            logits, labels = model(pixel_values=batch["pixel_values"]).logits.double(), batch["labels"]
            loss = functional.cross_entropy(logits, labels, reduction="sum").item()
            return loss, int((logits.argmax(1) == labels).sum())
