"""Classifies each token of a text, for example names or parts of speech."""

from __future__ import annotations

from collections.abc import Sequence

from regard.models import reads_cls
from regard.pipelines._classes import Classified, class_names, classified, probabilities
from regard.pipelines._verbs import verb
from regard.pipelines.sentence_similarity import SentenceSimilarityPipeline


class TokenClassificationPipeline(SentenceSimilarityPipeline):
    usage = 'echo "…" | regard classify FOLDER'

    @verb("a model with a classifier")
    def classify(self, texts: Sequence[str], *, rows: int = 32) -> list[list[tuple[str, Classified]]]:
        """The tokens of each text with their classes."""
        results: dict[int, list[tuple[str, Classified]]] = {}
        extra = self.stored.extra
        names, cls = class_names(extra, self.config.n_labels), int(reads_cls(self.stored.name))
        for places, inputs, output in self.outputs(texts, rows=rows):
            assert output.logits is not None
            shares = probabilities(output.logits, extra)
            for row, place in enumerate(places):
                last = int(inputs["attention_mask"][row].sum()) - cls
                labels = self.tokenizer.tokens(inputs["input_ids"][row, cls:last].tolist())
                scored = [classified(names, token, extra) for token in shares[row, cls:last].tolist()]
                results[place] = list(zip(labels, scored, strict=True))
        return [results[place] for place in range(len(texts))]
