"""A class for each word of a text, such as its part of speech: cross-entropy at the words that are asked."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.core.batch import Batch
from regard.core.directions import Direction
from regard.core.measured import Measured
from regard.data.tagged import IGNORED
from regard.tasks._task import Task


class TokenClassification(Task):
    """Loss per word; `labels` [B,T] are class numbers, or `IGNORED`."""

    unit: ClassVar[str] = "words"
    directions: ClassVar[dict[str, Direction]] = {"loss": "lower", "accuracy": "higher"}

    def __init__(self, *, label_smoothing: float = 0.0) -> None:
        self.label_smoothing = label_smoothing

    def count(self, batch: Batch) -> int:
        return int((batch["labels"] != IGNORED).sum())

    def loss(self, model: Any, batch: Batch) -> Tensor:
        logits, labels = _asked(model, batch)
        return F.cross_entropy(logits, labels, reduction="sum", label_smoothing=self.label_smoothing)

    def measure(self, model: Any, batch: Batch) -> Measured:
        """The loss, and the share of words whose class is right; a class that training did not have is wrong."""
        with torch.no_grad():
            logits, labels = _asked(model, batch)
            known = labels < logits.shape[-1]
            loss = F.cross_entropy(logits[known], labels[known], reduction="sum").item()
            right = int((logits.argmax(-1) == labels).sum())
        return Measured({"loss": loss, "accuracy": right}, {"loss": int(known.sum()), "accuracy": len(labels)})


def _asked(model: Any, batch: Batch) -> tuple[Tensor, Tensor]:
    more = {name: batch[name] for name in ("token_type_ids", "characters") if name in batch}
    logits = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"], **more).logits
    assert logits is not None, "the model has no head for classes of tokens"
    asked = batch["labels"] != IGNORED
    return logits[asked].float(), batch["labels"][asked]
