"""Metrics of predicted classes: accuracy, F1, Matthews' correlation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from regard.core.directions import Direction
from regard.core.measured import stacked
from regard.evaluation import metrics
from regard.evaluation.evaluators import Evaluator
from regard.evaluation.held_out import HeldOut


class Classes(Evaluator):
    directions: ClassVar[Mapping[str, Direction]] = {"accuracy": "higher", "f1": "higher", "matthews": "higher"}
    needs: ClassVar[tuple[str, ...]] = ("classes",)

    metrics: tuple[Literal["accuracy", "f1", "matthews"], ...] = ("accuracy", "f1", "matthews")

    def __call__(self, held_out: HeldOut) -> dict[str, float]:
        measured = held_out.measured
        return metrics.scores(stacked(measured.answers), stacked(measured.targets), self.metrics)
