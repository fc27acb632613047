"""Metrics that compare language models with different vocabularies: perplexity per word, bits per character."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

from regard.core.directions import Direction
from regard.core.measured import perplexity
from regard.evaluation.evaluators import Evaluator
from regard.evaluation.held_out import HeldOut


class TextUnits(Evaluator):
    directions: ClassVar[Mapping[str, Direction]] = {"word_perplexity": "lower", "bits_per_character": "lower"}
    needs: ClassVar[tuple[str, ...]] = ("words", "characters")

    def __call__(self, held_out: HeldOut) -> dict[str, float]:
        loss, material = held_out.measured.sums["loss"], held_out.material
        return {
            "word_perplexity": perplexity(loss / max(material["words"], 1)),
            "bits_per_character": loss / math.log(2) / max(material["characters"], 1),
        }
