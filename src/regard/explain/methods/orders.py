"""Which order of an n-gram model each word's probability came from.

An interpolated model mixes all orders (see `models/ngram.py`): p(w) = Σ_n part_n. part_n comes from the discounted
count of the n-gram, times the weights γ of the longer contexts; part_0 comes from the uniform distribution. A model
from an ARPA file, or one with maximum-likelihood counts, takes p from the longest known n-gram alone.
"""

from __future__ import annotations

import math

from regard.core.articles import with_article
from regard.core.errors import UsageError
from regard.explain.chosen import answered, looked_at, numbers
from regard.explain.traces import Trace
from regard.views.result import Matrix, Result, Table, Words

LOOKS_AT = "trace"
NEEDS = {"weights": False}

_PARTS, _MATCHED = "decoder.orders", "decoder.matched"


def orders(trace: Trace, *, row: int = 0) -> Result:
    """The longest known n-gram at each word of a text, and what each order gives to the word's probability."""
    trace.check_row(row)
    if _PARTS not in trace.hidden:
        raise UsageError(
            "this model has no orders to look at", got=with_article(trace.model), expected="an n-gram model"
        )
    labels = trace.labels("input", row)
    parts = trace.states(_PARTS)[row, : len(labels)].double()
    matched = trace.states(_MATCHED)[row, : len(labels), 0].long().tolist()
    probabilities = parts.sum(-1)
    shares = (parts / probabilities.clamp_min(1e-300).unsqueeze(-1)).clamp(0, 1)
    names = ["uniform", *(f"{n}-gram" for n in range(1, parts.shape[1]))]
    sure = probabilities.tolist()
    cells: list[list[str | float | int | None]] = [
        [label, order, " ".join(_before(labels, place, order)), p, -math.log2(p) if p > 0 else None]
        for place, (label, order, p) in enumerate(zip(labels, matched, sure, strict=True))
    ]
    by_order = [matched.count(n) for n in range(1, parts.shape[1])]
    mean = shares.mean(0).tolist()
    return Result(
        "orders",
        f"Orders of {trace.model}: {looked_at(trace, row)}",
        [
            Words("Longest known n-gram of each word", labels, [float(n) for n in matched], diverging=False),
            Matrix("Share of each order in the word's probability", labels, names, numbers(shares)),
            Table("Words", ["word", "order", "after", "probability", "bits"], cells),
        ],
        [*answered(trace, row), _statement(by_order), _mixed(names, mean)],
        {
            "words": labels,
            "orders": matched,
            "probabilities": sure,
            "shares": shares.tolist(),
            "names": names,
            "output": trace.output,
        },
    )


def _before(labels: list[str], place: int, order: int) -> list[str]:
    """The words of the longest known n-gram before its last; <s> is the beginning of the text."""
    words = ["<s>", *labels[:place]]
    ends = [number for number, word in enumerate(words) if word == "</s>"]
    words = ["<s>", *words[ends[-1] + 1 :]] if ends else words
    return words[len(words) - order + 1 :] if order > 1 else []


def _statement(by_order: list[int]) -> str:
    said = [f"{count} from a {n}-gram" for n, count in enumerate(by_order, 1) if count]
    return f"Of {sum(by_order)} words, the longest known n-gram: {', '.join(reversed(said))}."


def _mixed(names: list[str], mean: list[float]) -> str:
    said = [f"{share:.0%} {name}" for name, share in zip(names, mean, strict=True) if share >= 0.005]
    return f"The probabilities are made of, on average: {', '.join(reversed(said))}."
