"""Scores of translations and other generated text, with the signatures that make them comparable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from regard.core.errors import DataError
from regard.pipelines import Loaded


@dataclass(frozen=True)
class Scores:
    """BLEU and chrF with the signatures that make them comparable; `exact` is the share of lines that are right."""

    bleu: float
    bleu_signature: str
    bleu_tokenised: float
    chrf: float
    chrf_signature: str
    exact: float
    lines: int


def evaluate(model: Loaded, source: Sequence[str], reference: Sequence[str], **search: Any) -> tuple[Scores, list[str]]:
    """Translate and score; also return the translations."""
    if len(source) != len(reference):
        raise DataError(
            "source and reference differ in length", got=f"{len(source)} and {len(reference)} lines", expected="as many"
        )
    texts: list[str] = model.translate(source, **search)
    return score(texts, reference), texts


def score(texts: Sequence[str], reference: Sequence[str]) -> Scores:
    """sacrebleu's BLEU and chrF, and BLEU of words as split in the files, which older papers report."""
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    if not texts:
        raise DataError("there is nothing to score", got="0 lines")
    bleu, chrf, plain = BLEU(), CHRF(), BLEU(tokenize="none", force=True)
    lines, references = list(texts), [list(reference)]
    return Scores(
        bleu=round(bleu.corpus_score(lines, references).score, 2),
        bleu_signature=str(bleu.get_signature()),
        bleu_tokenised=round(plain.corpus_score(lines, references).score, 2),
        chrf=round(chrf.corpus_score(lines, references).score, 2),
        chrf_signature=str(chrf.get_signature()),
        exact=sum(text.strip() == right.strip() for text, right in zip(lines, reference, strict=True)) / len(lines),
        lines=len(lines),
    )


def by_position(references: Sequence[Sequence[str]]) -> list[list[str]]:
    """The references in sacrebleu's order: the first reference of every text, then the second of every text, ….

    A text with fewer references repeats its first, which changes no score.
    """
    most = max((len(several) for several in references), default=0)
    return [[several[place % len(several)] for several in references] for place in range(most)]
