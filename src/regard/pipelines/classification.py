"""Texts, or pairs of texts, to classes or to a number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from regard.core.errors import DataError
from regard.pipelines._verbs import verb
from regard.pipelines.sentence_similarity import SentenceSimilarityPipeline


@dataclass(frozen=True)
class Classified:
    """The most probable class with its probability, or the number where the model gives one; `scores` are of all."""

    label: str
    score: float
    scores: dict[str, float] = field(repr=False)


class ClassificationPipeline(SentenceSimilarityPipeline):
    """The names of the classes are those that the model was trained with."""

    usage = 'echo "…" | regard classify FOLDER'

    @verb("a model with a classifier")
    def classify(
        self, texts: Sequence[str], others: Sequence[str] | None = None, *, rows: int = 32
    ) -> list[Classified]:
        """The class of each text, or of each pair where `others` are given."""
        if others is not None and len(texts) != len(others):
            raise DataError("the two lists differ in length", got=f"{len(texts)} and {len(others)}", expected="as many")
        results: dict[int, Classified] = {}
        for places, _, output in self.outputs(texts, others, rows=rows):
            assert output.logits is not None
            numbers = output.logits.float()
            shares = numbers if self.stored.extra.get("regression") else numbers.softmax(-1)
            results |= {place: self._named(row) for place, row in zip(places, shares.tolist(), strict=True)}
        return [results[place] for place in range(len(texts))]

    def _named(self, row: list[float]) -> Classified:
        names = self.stored.extra.get("labels") or [f"LABEL_{i}" for i in range(len(row))]
        scores = dict(zip(names, row, strict=True))
        if self.stored.extra.get("regression"):
            return Classified(f"{row[0]:.3f}", row[0], scores)
        best = max(scores, key=scores.__getitem__)
        return Classified(best, scores[best], scores)
