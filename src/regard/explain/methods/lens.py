"""The logit lens (nostalgebraist 2020): what each layer would predict if it were the last.

The states of every block go through the model's own last norm and output layer. Layers are comparable only as far as
they share a space, which residual streams roughly do; the last row is the model's real output.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.core.errors import UsageError
from regard.explain.chosen import answered, looked_at, numbers, suited
from regard.explain.methods.attribute import labels_of
from regard.explain.subject import Subject
from regard.explain.traces import Trace
from regard.views.result import Matrix, Panel, Result, Table

LOOKS_AT = "trace"


def lens(trace: Trace, *, row: int = 0, top: int = 3) -> Result:
    """The words or classes that each layer would predict, and its probability of the final answer."""
    subject = trace.live()
    trace.check_row(row)
    if top < 1:
        raise UsageError("top must be positive", got=top, expected="1 or more")
    side = "decoder" if trace.layers("decoder") else "encoder"
    layers = trace.layers(side)
    if trace.task == "question_answering":
        raise UsageError("lens reads words and classes", got="a model that finds spans", remedy=suited(trace))
    read = subject.probabilities or (lambda layer_logits: layer_logits.float().softmax(-1))
    with torch.no_grad():
        logits = {layer: _logits(subject, trace, layer, row) for layer in layers}
    probabilities = {layer: read(given[0]) for layer, given in logits.items() if given is not None}
    if not probabilities or subject.label is None:
        headless = subject.label is None
        raise UsageError(
            f"this {trace.model} has no output layer to apply to the states of its layers",
            remedy="Use a model with a head: a language model, a translator, a classifier."
            if headless
            else suited(trace),
        )
    final = probabilities[layers[-1]]
    if "values" in trace.output:
        return _of_numbers(trace, probabilities, row)
    if final.dim() == 1:
        return _of_classes(trace, probabilities, top, row)
    labels = labels_of(trace, layers[-1], row)
    final = final[: len(labels)]
    answer_T = final.argmax(-1)
    sure = torch.stack([p_TV[: len(labels)].gather(1, answer_T[:, None])[:, 0] for p_TV in probabilities.values()])
    best = {
        layer: [subject.label(int(token)) for token in p_TV[: len(labels)].argmax(-1)]
        for layer, p_TV in probabilities.items()
    }
    agree = (
        (torch.stack([p_TV[: len(labels)].argmax(-1) for p_TV in probabilities.values()]) == answer_T).double().mean(1)
    )
    panels: list[Panel] = [
        Matrix(
            "Probability of the final answer", list(probabilities), labels, numbers(sure), note="by layer and position"
        ),
        Table(
            "Most likely word",
            ["position", *probabilities],
            [[label, *(best[layer][place] for layer in probabilities)] for place, label in enumerate(labels)],
        ),
    ]
    settled = next(layer for layer, share in zip(probabilities, agree, strict=True) if share >= 0.5)
    return Result(
        "lens",
        f"What each layer of {trace.model} would say: {looked_at(trace, row)}",
        panels,
        [*answered(trace, row), f"From {settled} on, at least half of the positions have their final answer."],
        {
            "layers": list(probabilities),
            "agreement": agree.tolist(),
            "words": best,
            "final": [subject.label(int(token)) for token in answer_T],
            "top": {layer: _tops(p_TV[: len(labels)], subject.label, top) for layer, p_TV in probabilities.items()},
            "output": trace.output,
        },
    )


def _logits(subject: Subject, trace: Trace, layer: str, row: int) -> Tensor | None:
    """The logits of one row, without its padding: a head that takes the mean of a text must not see it."""
    if subject.head_logits is None:
        return None
    return subject.head_logits(trace.states(layer)[row : row + 1, : len(labels_of(trace, layer, row))])


def _of_classes(trace: Trace, probabilities: dict[str, Tensor], top: int, row: int) -> Result:
    subject = trace.live()
    assert subject.label is not None
    final = next(reversed(probabilities.values()))
    kept = final.topk(min(max(top, 10), len(final))).indices.tolist()
    names = [subject.label(number) for number in kept]
    values = torch.stack([p_C[kept] for p_C in probabilities.values()])
    winners = [subject.label(int(p_C.argmax())) for p_C in probabilities.values()]
    return Result(
        "lens",
        f"What each layer of {trace.model} would say: {looked_at(trace, row)}",
        [Matrix("Probability of each class", list(probabilities), names, numbers(values))],
        [f"The final answer is {winners[-1]!r}; {winners.count(winners[-1])} of {len(winners)} layers agree."],
        {"layers": list(probabilities), "classes": names, "probabilities": values.tolist(), "winners": winners},
    )


def _of_numbers(trace: Trace, numbers_by_layer: dict[str, Tensor], row: int) -> Result:
    """For a regression: the number that each layer would give, after the last token if it has one for each."""
    values = {layer: float(number.flatten()[-1]) for layer, number in numbers_by_layer.items()}
    final = next(reversed(values.values()))
    return Result(
        "lens",
        f"What each layer of {trace.model} would say: {looked_at(trace, row)}",
        [Table("Number by layer", ["layer", "number"], [[layer, value] for layer, value in values.items()])],
        [f"The final answer is {final:.4g}."],
        {"layers": list(values), "numbers": list(values.values())},
    )


def _tops(shares: Tensor, label: Any, top: int) -> list[list[tuple[str, float]]]:
    best = shares.topk(min(top, shares.shape[-1]))
    pairs = zip(best.indices.tolist(), best.values.tolist(), strict=True)
    return [[(label(token), share) for token, share in zip(*pair, strict=True)] for pair in pairs]
