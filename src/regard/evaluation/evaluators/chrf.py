"""chrF of generated text (Popović 2015), by sacrebleu."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field

from regard.core.directions import Direction
from regard.evaluation.evaluators import Evaluator
from regard.evaluation.held_out import HeldOut
from regard.evaluation.text_scores import by_position


class Chrf(Evaluator):
    directions: ClassVar[Mapping[str, Direction]] = {"chrf": "higher"}
    needs: ClassVar[tuple[str, ...]] = ("inputs", "references")

    beam: int = Field(1, gt=0, description="1 is greedy")

    def __call__(self, held_out: HeldOut) -> dict[str, float]:
        import sacrebleu

        texts = held_out.texts(beam=self.beam)
        return {"chrf": float(sacrebleu.corpus_chrf(texts, by_position(held_out.references)).score)}
