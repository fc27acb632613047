"""Predicts whether one text follows another (BERT's second training task)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from regard.pipelines._classes import Classified, classified
from regard.pipelines._loaded import Accepted
from regard.pipelines.classification import ClassificationPipeline

_NAMES = ("follows", "does not follow")


class NextSentencePipeline(ClassificationPipeline):
    usage = "regard classify FOLDER --pairs"
    accepts: ClassVar[tuple[Accepted, ...]] = ("pair",)

    def answer_label(self, number: int) -> str:
        return _NAMES[number]

    def _named(self, row: list[float]) -> Classified:
        return classified(_NAMES, row, {})

    def classify(
        self, texts: Sequence[str], others: Sequence[str] | None = None, *, rows: int = 32
    ) -> list[Classified]:
        """Whether each of the others follows its text."""
        return super().classify(texts, others or [""] * len(texts), rows=rows)
