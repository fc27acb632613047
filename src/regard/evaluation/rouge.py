"""ROUGE-1, ROUGE-2 and ROUGE-L (Lin 2004): how many words, pairs of words, and words in order a summary shares with its
reference.

    precision = shared / in the summary      recall = shared / in the reference      F = 2 · P · R / (P + R)

ROUGE-n shares n-grams, each at most as often as both sides have it; ROUGE-L shares the longest common subsequence.
Words are runs of letters and digits in lower case; there is no stemming. For English this equals the package
`rouge-score`, which knows no letters but a to z. Of several references the best counts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

NAMES = ("rouge_1", "rouge_2", "rouge_l")
_WORD = re.compile(r"[^\W_]+")


def rouge(texts: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
    """The mean F of all texts, from 0 to 100."""
    totals = dict.fromkeys(NAMES, 0.0)
    for text, several in zip(texts, references, strict=True):
        written = _words(text)
        scores = [_scores(written, _words(reference)) for reference in several]
        for name in NAMES:
            totals[name] += max((score[name] for score in scores), default=0.0)
    return {name: 100 * total / max(len(texts), 1) for name, total in totals.items()}


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _scores(written: list[str], reference: list[str]) -> dict[str, float]:
    scores = {}
    for n in (1, 2):
        ours, theirs = (Counter(zip(*(words[i:] for i in range(n)), strict=False)) for words in (written, reference))
        scores[f"rouge_{n}"] = _f_measure((ours & theirs).total(), ours.total(), theirs.total())
    scores["rouge_l"] = _f_measure(common_subsequence(written, reference), len(written), len(reference))
    return scores


def _f_measure(shared: int, ours: int, theirs: int) -> float:
    # 2PR / (P + R) with P = shared / ours and R = shared / theirs
    return 2 * shared / (ours + theirs) if shared else 0.0


def common_subsequence(first: Sequence[str], second: Sequence[str]) -> int:
    """The length of the longest common subsequence, by rows of the usual table."""
    row = [0] * (len(second) + 1)
    for word in first:
        diagonal = 0
        for place, other in enumerate(second, 1):
            above = row[place]
            row[place] = diagonal + 1 if word == other else max(above, row[place - 1])
            diagonal = above
    return row[-1]
