"""A document with the weights of its sentences in the margin and those of its words inside (Yang et al. 2016, fig. 5).

It reads two sites of the trace: one that looks at the words of each sentence (several rows for one input, see
`core.taps.Axes`), and one that looks at as many things as there are sentences. Sentences and words are coloured by
p_s and √p_s · p_w, as in the paper: a word stands out if it is heavy in a heavy sentence. `--plain` colours words by
p_w alone. The weights of several heads or queries are averaged.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from regard.core.articles import with_article
from regard.core.errors import UsageError
from regard.explain.chosen import answered, looked_at, suited
from regard.explain.traces import Look, Trace
from regard.views.result import Document, Result

LOOKS_AT = "trace"
_SAID = 3


def document(trace: Trace, *, row: int = 0, plain: bool = False) -> Result:
    """A document's sentence weights at the margin and its word weights inside, for models that read sentences."""
    inner, outer = _levels(trace, row)
    margin = _weights(outer)
    labels = [look.keys for look in inner]
    weights = [_weights(look) for look in inner]
    scales = [1.0 if plain else float(share) ** 0.5 for share in margin]
    values = [(words * scale).tolist() for words, scale in zip(weights, scales, strict=True)]
    note = "words by p_w" if plain else "words by √p_s · p_w: heavy words of heavy sentences"
    sentences = [{"weight": float(share), "words": words, "weights": inside.tolist()}
                 for share, words, inside in zip(margin, labels, weights, strict=True)]  # fmt: skip
    return Result(
        "document",
        f"Document, read by {trace.model}: {looked_at(trace, row)}",
        [
            Document(
                "The document", margin.tolist(), labels, values, f"in the margin: weights of sentences, p_s; {note}"
            )
        ],
        [*answered(trace, row), *_statements(sentences)],
        {"sentences": sentences, "output": trace.output},
    )


def _levels(trace: Trace, row: int) -> tuple[list[Look], Look]:
    """The looks at the words of each sentence, and the look at the sentences."""
    trace.check_row(row)
    looks = {name: trace.looks(name, row) for name in trace.sites}
    for name, site in trace.sites.items():
        if site.rows is None or not looks[name]:
            continue
        for other, outer in trace.sites.items():
            if outer.rows is None and len(looks[other]) == 1 and len(looks[other][0].keys) == len(looks[name]):
                return looks[name], looks[other][0]
    raise UsageError(
        "document needs a model that looks at sentences and at the words of each",
        got=with_article(trace.model),
        remedy=f"{suited(trace)} A model such as han has documents.",
    )


def _weights(look: Look) -> Tensor:
    """The mean over heads and queries [K]."""
    return look.weights.float().mean((0, 1))


def _statements(sentences: list[dict[str, Any]]) -> list[str]:
    order = sorted(range(len(sentences)), key=lambda number: -sentences[number]["weight"])
    said = list[str]()
    for number in order[:_SAID]:
        sentence = sentences[number]
        best = sorted(zip(sentence["weights"], sentence["words"], strict=True), reverse=True)[:_SAID]
        inside = ", ".join(f"{word} {share:.2f}" for share, word in best)
        said.append(f"Sentence {number + 1} has {sentence['weight']:.0%} of the weight; inside it: {inside}.")
    return said
