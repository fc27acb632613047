"""The words that decided a classification.

The answer's score, log p of the class (see `Subject.score`), is divided among the words of the text: integrated
gradients from zero vectors (Sundararajan et al. 2017). Where words are summed, as in a bag of words, zero vectors are
a text without words. The parts add up to the score minus the score of the empty text, up to the error of the integral,
which is reported. The parts of a word that occurs several times are added.
"""

from __future__ import annotations

from typing import Any

from regard.core.articles import with_article
from regard.core.errors import UsageError
from regard.explain.chosen import answered, looked_at, scored
from regard.explain.methods.attribute import answer_parts, labels_of
from regard.explain.traces import Trace
from regard.views.result import Panel, Result, Table, Words

LOOKS_AT = "trace"
NEEDS = {"weights": False}


def words(trace: Trace, *, row: int = 0, top: int = 10, steps: int = 64) -> Result:
    """The words that count most for the answer and against it, and what each adds to its log-probability."""
    trace.check_row(row)
    if top < 1 or steps < 1:
        raise UsageError("top and steps must be positive", got=f"top {top}, steps {steps}", expected="1 or more")
    if trace.grids or trace.live().score is None:
        got = "an image" if trace.grids else f"{with_article(trace.model)} without an answer"
        raise UsageError("words explains an answer to a text", got=got)
    parts, whole, empty = answer_parts(trace, row=row, steps=steps)
    name, part = next(iter(parts.items()))
    labels = labels_of(trace, name, row)
    values = part[: len(labels)].double().tolist()
    added: dict[str, list[float]] = {}
    for label, value in zip(labels, values, strict=True):
        added.setdefault(label, []).append(value)
    totals = sorted(((sum(given), label, len(given)) for label, given in added.items()), reverse=True)
    chosen = {"for": [t for t in totals if t[0] > 0][:top], "against": [t for t in reversed(totals) if t[0] < 0][:top]}
    rest = (whole - empty) - sum(sum(each.double().tolist()) for each in parts.values())
    what = scored(trace)
    added_to = what.removesuffix(" of the answer")
    panels: list[Panel] = [
        Words("What each word gave", labels, values, note="above zero: for the answer; below: against it"),
        *(Table(f"Words {side} the answer", ["word", "times", added_to], _cells(kept))
          for side, kept in chosen.items() if kept),
    ]  # fmt: skip
    score = f"The {what} is {whole:.3f}, for an empty text {empty:.3f}"
    return Result(
        "words",
        f"Words that decided, by {trace.model}: {looked_at(trace, row)}",
        panels,
        [
            *answered(trace, row),
            *(
                f"{side.capitalize()} it: {', '.join(_said(t) for t in kept[:5])}."
                for side, kept in chosen.items()
                if kept
            ),
            f"{score}; {abs(rest):.1e} of the difference belongs to no word.".replace("-", "−"),
        ],
        {
            "words": labels,
            "values": values,
            "for": [_entry(t) for t in chosen["for"]],
            "against": [_entry(t) for t in chosen["against"]],
            "score": whole,
            "score_of_empty": empty,
            "rest": rest,
            "output": trace.output,
        },
    )


def _cells(kept: list[tuple[float, str, int]]) -> list[list[str | float | int | None]]:
    return [[label, times, value] for value, label, times in kept]


def _said(entry: tuple[float, str, int]) -> str:
    value, label, _ = entry
    return f"{label} {value:+.2f}".replace("-", "−")


def _entry(entry: tuple[float, str, int]) -> dict[str, Any]:
    value, label, times = entry
    return {"word": label, "times": times, "value": value}
