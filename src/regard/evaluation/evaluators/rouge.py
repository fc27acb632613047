"""ROUGE-1, ROUGE-2 and ROUGE-L of generated summaries (Lin 2004), beside the first words of each document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field

from regard.core.directions import Direction
from regard.evaluation.evaluators import Evaluator
from regard.evaluation.held_out import HeldOut
from regard.evaluation.rouge import NAMES, rouge

LEAD_NAMES = tuple(f"lead_{name}" for name in NAMES)


class Rouge(Evaluator):
    directions: ClassVar[Mapping[str, Direction]] = dict.fromkeys((*NAMES, *LEAD_NAMES), "higher")
    needs: ClassVar[tuple[str, ...]] = ("inputs", "references")

    beam: int = Field(1, gt=0, description="1 is greedy")
    lead: int = Field(0, ge=0, description="also score this many first words of each document; 0: do not")

    def __call__(self, held_out: HeldOut) -> dict[str, float]:
        scores = rouge(held_out.texts(beam=self.beam), held_out.references)
        if not self.lead:
            return scores
        first = [" ".join(text.split()[: self.lead]) for text in held_out.material["inputs"]]
        return {**scores, **dict(zip(LEAD_NAMES, rouge(first, held_out.references).values(), strict=True))}
