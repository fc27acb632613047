"""Scores of translations and other generated text, with the signatures that make them comparable."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from regard.core.errors import DataError
from regard.evaluation.moses import lowercased_words, version
from regard.pipelines import Loaded

_END = "</s>"


@dataclass(frozen=True)
class Scores:
    """BLEU and chrF with the signatures that make them comparable; `exact` is the share of lines that are right.

    `bleu_tokenised` is BLEU of the words that the files separate. `bleu_moses` is BLEU of lowercased text, split into
    words by Moses' rules, for the language and version in `moses`; it is None if no language was given.
    """

    bleu: float
    bleu_signature: str
    bleu_tokenised: float
    bleu_tokenised_signature: str
    chrf: float
    chrf_signature: str
    exact: float
    lines: int
    bleu_moses: float | None = None
    bleu_moses_signature: str | None = None
    moses: str | None = None


def evaluate(
    model: Loaded, source: Sequence[str], reference: Sequence[str], *, moses: str | None = None, **search: Any
) -> tuple[Scores, list[str]]:
    """Translate and score; also return the translations. `moses` is the language of the target, see `score`."""
    if moses is not None:
        lowercased_words(moses)  # an error should come before the work
    if len(source) != len(reference):
        raise DataError(
            "source and reference differ in length",
            got=f"{len(source)} and {len(reference)} lines",
            expected="the same number",
        )
    texts: list[str] = model.translate(source, **search)
    return score(texts, reference, moses=moses), texts


def score(texts: Sequence[str], reference: Sequence[str], *, moses: str | None = None) -> Scores:
    """sacrebleu's BLEU and chrF, and BLEU of words as split in the files, which older papers report.

    With `moses`, a language such as "de", also BLEU of lowercased text in the words of Moses' tokenizer.
    """
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    if not texts:
        raise DataError("there is nothing to score", got="0 lines")
    bleu, chrf, plain = BLEU(), CHRF(), BLEU(tokenize="none", force=True)
    lines, references = list(texts), [list(reference)]
    scores = Scores(
        bleu=round(bleu.corpus_score(lines, references).score, 2),
        bleu_signature=str(bleu.get_signature()),
        bleu_tokenised=round(plain.corpus_score(lines, references).score, 2),
        bleu_tokenised_signature=str(plain.get_signature()),
        chrf=round(chrf.corpus_score(lines, references).score, 2),
        chrf_signature=str(chrf.get_signature()),
        exact=sum(text.strip() == right.strip() for text, right in zip(lines, reference, strict=True)) / len(lines),
        lines=len(lines),
    )
    if moses is None:
        return scores
    words, lower = lowercased_words(moses), BLEU(tokenize="none", lowercase=True, force=True)
    moses_score = lower.corpus_score([words(line) for line in lines], [[words(line) for line in reference]]).score
    return replace(
        scores,
        bleu_moses=round(moses_score, 2),
        bleu_moses_signature=str(lower.get_signature()),
        moses=f"{moses}, sacremoses {version()}",
    )


def by_position(references: Sequence[Sequence[str]]) -> list[list[str]]:
    """The references in sacrebleu's order: the first reference of every text, then the second of every text, ….

    A text with fewer references repeats its first, which changes no score.
    """
    most = max((len(several) for several in references), default=0)
    return [[several[place % len(several)] for several in references] for place in range(most)]


def sentence_bleu(text: str, references: Sequence[str]) -> float:
    """BLEU-4 of one text in words between spaces, from 0 to 1, as a reward of training.

    It differs from the score of a corpus in three points, without which a model learns short texts that break off: the
    end counts as a word, brevity is measured by the mean length of the references and not by the closest, and every
    n-gram counts once more, so that the score is above 0.
    """
    from sacrebleu.metrics.bleu import BLEU

    bleu = BLEU(tokenize="none", smooth_method="add-k", smooth_value=1, force=True)
    score = bleu.corpus_score([f"{text} {_END}"], [[f"{reference} {_END}"] for reference in references])
    usual = sum(len(reference.split()) + 1 for reference in references) / len(references)
    brevity = math.exp(min(0.0, 1 - usual / score.sys_len))
    return math.exp(sum(map(math.log, score.precisions)) / len(score.precisions)) * brevity / 100
