"""Generated texts beside their references, from right to wrong.

Each text is graded by sentence-level chrF (Popović 2015) against the nearest of its references, from 0 to 100. A grade
compares letters, not meaning: a right sentence in other words has a low grade.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Graded:
    """One input by name, what was generated for it, the nearest reference, and the grade."""

    input: str
    text: str
    reference: str
    chrf: float


def graded(names: Sequence[str], texts: Sequence[str], references: Sequence[Sequence[str]], count: int) -> list[Graded]:
    """`count` of the texts, evenly spaced from the best grade to the worst, best first."""
    import sacrebleu

    rows = []
    for name, text, several in zip(names, texts, references, strict=True):
        grades = [(float(sacrebleu.sentence_chrf(text, [reference]).score), reference) for reference in several]
        best, nearest = max(grades, key=lambda grade: grade[0])
        rows.append(Graded(name, text, nearest, best))
    rows.sort(key=lambda row: -row.chrf)
    last, shown = len(rows) - 1, min(count, len(rows))
    return [rows[round(place * last / max(shown - 1, 1))] for place in range(shown)]
