"""Classes, or a number, for a text or a pair of texts: cross-entropy of the classes, or the number's squared error."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.core.batch import Batch
from regard.core.output import Output


class Judges(Protocol):
    """What this task needs of a model: `logits` [B,C] of rows of tokens."""

    def __call__(self, *, input_ids: Tensor, attention_mask: Tensor, **segments: Tensor) -> Output: ...


class Classification:
    """Loss per example; `labels` [B] are class numbers, or numbers for a regression."""

    unit = "texts"

    def __init__(self, *, regression: bool = False, label_smoothing: float = 0.0) -> None:
        self.regression, self.label_smoothing = regression, label_smoothing

    def count(self, batch: Batch) -> int:
        return batch.size

    def loss(self, model: Judges, batch: Batch) -> Tensor:
        """The loss summed over the batch's examples."""
        return self._loss(_logits(model, batch), batch["labels"], self.label_smoothing)

    def judged(self, model: Judges, batches: Iterable[Batch]) -> tuple[Tensor, float]:
        """The logits [N,C] of all rows in their own order, and the mean loss, without smoothing."""
        parts: list[Tensor] = []
        rows: list[int] = []
        total = 0.0
        with torch.no_grad():
            for batch in batches:
                logits = _logits(model, batch)
                parts.append(logits)
                rows += batch.rows
                if "labels" in batch:
                    total += self._loss(logits, batch["labels"], 0.0).item()
        return torch.cat(parts)[torch.tensor(rows).argsort()], total / len(rows)

    def _loss(self, logits: Tensor, labels: Tensor, smoothing: float) -> Tensor:
        if self.regression:
            return F.mse_loss(logits.squeeze(-1), labels, reduction="sum")
        return F.cross_entropy(logits, labels, reduction="sum", label_smoothing=smoothing)


def _logits(model: Judges, batch: Batch) -> Tensor:
    segments = {"token_type_ids": batch["token_type_ids"]} if "token_type_ids" in batch else {}
    found = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"], **segments).logits
    assert found is not None, "the model has no head for classes"
    return found.float()
