"""A class for each token of a text: names, parts of speech."""

from __future__ import annotations

from collections.abc import Sequence

from regard.pipelines._verbs import verb
from regard.pipelines.classification import Classified
from regard.pipelines.sentence_similarity import SentenceSimilarityPipeline


class TokenClassificationPipeline(SentenceSimilarityPipeline):
    usage = 'echo "…" | regard classify FOLDER'

    @verb("a model with a classifier")
    def classify(self, texts: Sequence[str], *, rows: int = 32) -> list[list[tuple[str, Classified]]]:
        """The tokens of each text with their classes."""
        results: dict[int, list[tuple[str, Classified]]] = {}
        names = self.stored.extra.get("labels") or [f"LABEL_{i}" for i in range(self.config.n_labels)]
        for places, inputs, output in self.outputs(texts, rows=rows):
            assert output.logits is not None
            shares = output.logits.float().softmax(-1)
            for row, place in enumerate(places):
                real = int(inputs["attention_mask"][row].sum())
                labels = self.tokenizer.tokens(inputs["input_ids"][row, 1 : real - 1].tolist())
                scored = [dict(zip(names, token, strict=True)) for token in shares[row, 1 : real - 1].tolist()]
                results[place] = [
                    (label, Classified(best, scores[best], scores))
                    for label, scores in zip(labels, scored, strict=True)
                    for best in [max(scores, key=scores.__getitem__)]
                ]
        return [results[place] for place in range(len(texts))]
