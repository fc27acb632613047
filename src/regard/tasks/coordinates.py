"""Regression from coordinates to values: loss = Σ over points of the squared error, mean over channels.

PSNR = −10 log₁₀ (mean squared error), in decibels, for values from 0 to 1
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
from torch import Tensor

from regard.core.batch import Batch
from regard.core.directions import Direction
from regard.core.measured import Measured
from regard.tasks._task import Task


class Coordinates(Task):
    """Loss per point of `values` [B,C] at `points` [B,d]."""

    unit = "points"
    directions: ClassVar[dict[str, Direction]] = {"loss": "lower", "psnr": "higher"}

    def loss(self, model: Any, batch: Batch) -> Tensor:
        error: Tensor = (model(batch["points"]).logits.float() - batch["values"]).square()
        return error.mean(1).sum()

    def measure(self, model: Any, batch: Batch) -> Measured:
        with torch.no_grad():
            error = (model(batch["points"]).logits.double() - batch["values"].double()).square()
        return Measured({"loss": error.mean(1).sum().item()}, {"loss": batch.size})

    def summary(self, measured: Measured) -> dict[str, float]:
        means = measured.means()
        return {**means, "psnr": -10 * math.log10(max(means["loss"], 1e-12))}
