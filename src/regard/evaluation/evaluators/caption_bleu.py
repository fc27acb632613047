"""BLEU-1 to BLEU-4 of captions (Papineni et al. 2002) against all references of an image, by sacrebleu.

Words are those between spaces, there is no smoothing, and the brevity penalty takes the reference of the closest
length, as in the scores that captioning papers report.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from pydantic import Field

from regard.core.directions import Direction
from regard.evaluation.evaluators import Evaluator
from regard.evaluation.held_out import HeldOut
from regard.evaluation.text_scores import by_position

_ORDERS = (1, 2, 3, 4)


class CaptionBleu(Evaluator):
    directions: ClassVar[Mapping[str, Direction]] = {f"bleu_{n}": "higher" for n in _ORDERS}
    needs: ClassVar[tuple[str, ...]] = ("inputs", "references")

    beam: int = Field(1, gt=0, description="1 is greedy")

    def __call__(self, held_out: HeldOut) -> dict[str, float]:
        return caption_bleu(held_out.texts(beam=self.beam), held_out.references)


def caption_bleu(texts: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
    """BLEU-1 to BLEU-4, from 0 to 100."""
    from sacrebleu.metrics.bleu import BLEU

    lines, several = list(texts), by_position(references)
    scores = {}
    for n in _ORDERS:
        bleu = BLEU(tokenize="none", smooth_method="none", max_ngram_order=n, force=True)
        scores[f"bleu_{n}"] = float(bleu.corpus_score(lines, several).score)
    return scores
