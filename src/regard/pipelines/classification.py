"""Classifies texts or pairs of texts, or gives them a number."""

from __future__ import annotations

from collections.abc import Sequence

from regard.core.errors import DataError
from regard.pipelines._classes import Classified, class_names, classified, probabilities
from regard.pipelines._verbs import verb
from regard.pipelines.sentence_similarity import SentenceSimilarityPipeline

__all__ = ["ClassificationPipeline", "Classified"]


class ClassificationPipeline(SentenceSimilarityPipeline):
    """The class names are those of training."""

    usage = 'echo "…" | regard classify FOLDER'

    @verb("a model with a classifier")
    def classify(
        self, texts: Sequence[str], others: Sequence[str] | None = None, *, rows: int = 32
    ) -> list[Classified]:
        """The class of each text, or of each pair if `others` are given."""
        if others is not None and len(texts) != len(others):
            raise DataError(
                "the two lists differ in length", got=f"{len(texts)} and {len(others)}", expected="the same number"
            )
        results: dict[int, Classified] = {}
        for places, _, output in self.outputs(texts, others, rows=rows):
            assert output.logits is not None
            shares = probabilities(output.logits, self.stored.extra)
            results |= {place: self._named(row) for place, row in zip(places, shares.tolist(), strict=True)}
        return [results[place] for place in range(len(texts))]

    def _named(self, row: list[float]) -> Classified:
        return classified(class_names(self.stored.extra, len(row)), row, self.stored.extra)
