"""Correlation of predicted numbers with the targets: Pearson's and Spearman's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from regard.core.directions import Direction
from regard.core.measured import stacked
from regard.evaluation import metrics
from regard.evaluation.evaluators import Evaluator
from regard.evaluation.held_out import HeldOut


class Correlation(Evaluator):
    directions: ClassVar[Mapping[str, Direction]] = {"pearson": "higher", "spearman": "higher"}
    needs: ClassVar[tuple[str, ...]] = ("numbers",)

    metrics: tuple[Literal["pearson", "spearman"], ...] = ("pearson", "spearman")

    def __call__(self, held_out: HeldOut) -> dict[str, float]:
        measured = held_out.measured
        return metrics.scores(stacked(measured.answers), stacked(measured.targets), self.metrics)
