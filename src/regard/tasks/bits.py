"""Sequences of bits in, sequences of bits out (Graves et al. 2014).

loss = − Σ_t Σ_j log p(target bit j of step t), over the steps that are asked: each bit has its own probability.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.core.batch import Batch
from regard.core.directions import Direction
from regard.core.measured import Measured
from regard.core.output import Output
from regard.tasks._task import Task

Model = Callable[[Tensor], Output]


class Bits(Task):
    """Loss per bit of `targets` [B,T,O] where `asked` [B,T]; `wrong_bits` and `wrong_sequences` are shares."""

    unit: ClassVar[str] = "bits"
    directions: ClassVar[dict[str, Direction]] = {"loss": "lower", "wrong_bits": "lower", "wrong_sequences": "lower"}

    def count(self, batch: Batch) -> int:
        return int(batch["asked"].sum()) * batch["targets"].shape[-1]

    def loss(self, model: Model, batch: Batch) -> Tensor:
        logits, targets = _asked(model, batch)
        return F.binary_cross_entropy_with_logits(logits, targets, reduction="sum")

    def measure(self, model: Model, batch: Batch) -> Measured:
        with torch.no_grad():
            logits, targets = _asked(model, batch)
            loss = F.binary_cross_entropy_with_logits(logits.double(), targets.double(), reduction="sum")
            wrong = (logits > 0) != (targets > 0.5)
        rows = batch["asked"].nonzero()[:, 0]
        failed = torch.zeros(batch.size, dtype=torch.bool).index_put((rows[wrong.any(-1)],), torch.tensor(True))
        count = self.count(batch)
        return Measured(
            {"loss": loss.item(), "wrong_bits": float(wrong.sum()), "wrong_sequences": float(failed.sum())},
            {"loss": count, "wrong_bits": count, "wrong_sequences": batch.size},
        )


def _asked(model: Model, batch: Batch) -> tuple[Tensor, Tensor]:
    """Logits and targets of the steps that are asked [N,O]."""
    logits, asked = model(batch["bits"]).logits, batch["asked"]
    assert logits is not None
    return logits[asked].float(), batch["targets"][asked]
