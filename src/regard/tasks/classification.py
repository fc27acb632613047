"""Classification or regression of a text or a pair of texts: cross-entropy of classes, or squared error of a number."""

from __future__ import annotations

from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.core.batch import Batch
from regard.core.measured import Measured
from regard.core.output import Output
from regard.tasks._task import Task


class Classifies(Protocol):
    """What this task needs of a model: `logits` [B,C] of rows of tokens."""

    def __call__(self, *, input_ids: Tensor, attention_mask: Tensor, **more: Tensor) -> Output: ...


class Classification(Task):
    """Loss per example; `labels` [B] are class numbers, or numbers for a regression."""

    unit = "texts"

    def __init__(self, *, regression: bool = False, label_smoothing: float = 0.0) -> None:
        self.regression, self.label_smoothing = regression, label_smoothing

    def loss(self, model: Classifies, batch: Batch) -> Tensor:
        return self._loss(_logits(model, batch), batch["labels"], self.label_smoothing)

    def measure(self, model: Classifies, batch: Batch) -> Measured:
        """The loss, if there are labels, and the logits [C] of each row."""
        with torch.no_grad():
            logits = _logits(model, batch)
            measured = Measured(answers=dict(zip(batch.rows, logits, strict=True)))
            if "labels" in batch:
                measured.sums["loss"] = self._loss(logits, batch["labels"], 0.0).item()
                measured.counts["loss"] = batch.size
                measured.targets = dict(zip(batch.rows, batch["labels"], strict=True))
        return measured

    def _loss(self, logits: Tensor, labels: Tensor, smoothing: float) -> Tensor:
        if self.regression:
            return F.mse_loss(logits.squeeze(-1), labels, reduction="sum")
        return F.cross_entropy(logits, labels, reduction="sum", label_smoothing=smoothing)


def _logits(model: Classifies, batch: Batch) -> Tensor:
    more = {name: batch[name] for name in ("token_type_ids", "characters") if name in batch}
    logits = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"], **more).logits
    assert logits is not None, "the model has no head for classes"
    return logits.float()
