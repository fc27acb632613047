"""The share of generated texts that equal one of their references."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field

from regard.core.directions import Direction
from regard.evaluation.evaluators import Evaluator
from regard.evaluation.held_out import HeldOut


class ExactText(Evaluator):
    directions: ClassVar[Mapping[str, Direction]] = {"exact_text": "higher"}
    needs: ClassVar[tuple[str, ...]] = ("inputs", "references")

    beam: int = Field(1, gt=0, description="1 is greedy")

    def __call__(self, held_out: HeldOut) -> dict[str, float]:
        pairs = list(zip(held_out.texts(beam=self.beam), held_out.references, strict=True))
        right = sum(text.strip() in [reference.strip() for reference in references] for text, references in pairs)
        return {"exact_text": right / max(len(pairs), 1)}
