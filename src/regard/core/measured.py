"""Measurements of teacher forcing on batches: sums with their counts, and an answer for each row."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass
class Measured:
    """`sums["loss"] / counts["loss"]` is the mean loss. `answers` are the model's answers by row number, `targets` the
    expected ones. Both stay empty for tasks that have no answer per row."""

    sums: dict[str, float] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    answers: dict[int, Tensor] = field(default_factory=dict)
    targets: dict[int, Tensor] = field(default_factory=dict)

    def add(self, batch: Measured) -> None:
        """Add the measurements of another batch."""
        for name, value in batch.sums.items():
            self.sums[name] = self.sums.get(name, 0.0) + value
            self.counts[name] = self.counts.get(name, 0) + batch.counts[name]
        self.answers |= batch.answers
        self.targets |= batch.targets

    def means(self) -> dict[str, float]:
        return {name: value / max(self.counts[name], 1) for name, value in self.sums.items()}


def stacked(rows: Mapping[int, Tensor]) -> Tensor:
    """Stack tensors of equal shape in the order of their row numbers [N,…]."""
    return torch.stack([rows[row] for row in sorted(rows)])


def perplexity(loss: float) -> float:
    """exp of a mean loss in nats; infinite where a token has probability 0, or where exp would overflow."""
    return math.exp(loss) if loss <= 700 else math.inf if loss > 700 else math.nan
