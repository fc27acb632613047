"""Labelled bracket F1 of parsed sentences, as evalb counts it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field

from regard.core.directions import Direction
from regard.data.trees import parse
from regard.evaluation.brackets import score
from regard.evaluation.evaluators import Evaluator
from regard.evaluation.held_out import HeldOut


class BracketF1(Evaluator):
    directions: ClassVar[Mapping[str, Direction]] = {
        "bracket_f1": "higher", "bracket_precision": "higher", "bracket_recall": "higher", "trees_exact": "higher",
    }  # fmt: skip
    needs: ClassVar[tuple[str, ...]] = ("inputs", "trees")

    beam: int = Field(1, gt=0, description="1 is greedy")

    def __call__(self, held_out: HeldOut) -> dict[str, float]:
        written = [parse(text) for text in held_out.texts(beam=self.beam)]
        scores = score(zip(held_out.material["trees"], written, strict=True))
        return {
            "bracket_f1": scores.f1,
            "bracket_precision": scores.precision,
            "bracket_recall": scores.recall,
            "trees_exact": scores.exact,
        }
