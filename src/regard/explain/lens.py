"""What each layer would say if it were the last (nostalgebraist 2020, the logit lens).

Every block's states go through the model's own last norm and output layer. Layers are comparable only as far as they
share a space, which residual streams roughly do; the last row is the model's real output.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.core.errors import UsageError
from regard.explain._chosen import answered, looked_at, numbers
from regard.explain._trace import Trace
from regard.explain.attribute import labels_of
from regard.views.result import Matrix, Panel, Result, Table


def lens(trace: Trace, *, row: int = 0, top: int = 3) -> Result:
    """The words or classes that each layer would answer with, and how sure it is of the final answer."""
    subject = trace.live()
    trace.check_row(row)
    if top < 1:
        raise UsageError("top must be positive", got=top, expected="1 or more")
    side = "decoder" if trace.layers("decoder") else "encoder"
    layers = trace.layers(side)
    with torch.no_grad():
        logits = {layer: subject.read(trace.states(layer)) if subject.read else None for layer in layers}
    said = {layer: one[row].float().softmax(-1) for layer, one in logits.items() if one is not None}
    if not said or subject.label is None:
        raise UsageError(
            f"this {trace.model} has no output layer to read states with",
            remedy="Use a model with a head: a language model, a translator, a classifier.",
        )
    final = said[layers[-1]]
    if final.dim() == 1:
        return _of_classes(trace, said, top, row)
    labels = labels_of(trace, layers[-1], row)
    final = final[: len(labels)]
    answer_T = final.argmax(-1)
    sure = torch.stack([one[: len(labels)].gather(1, answer_T[:, None])[:, 0] for one in said.values()])
    best = {
        layer: [subject.label(int(token)) for token in one[: len(labels)].argmax(-1)] for layer, one in said.items()
    }
    agree = (torch.stack([one[: len(labels)].argmax(-1) for one in said.values()]) == answer_T).double().mean(1)
    panels: list[Panel] = [
        Matrix("Probability of the final answer", list(said), labels, numbers(sure), note="by layer and position"),
        Table(
            "Likeliest word",
            ["position", *said],
            [[label, *(best[layer][place] for layer in said)] for place, label in enumerate(labels)],
        ),
    ]
    settled = next(layer for layer, share in zip(said, agree, strict=True) if share >= 0.5)
    return Result(
        "lens",
        f"What each layer of {trace.model} would say: {looked_at(trace, row)}",
        panels,
        [*answered(trace, row), f"From {settled} on, at least half of the positions have their final answer."],
        {
            "layers": list(said),
            "agreement": agree.tolist(),
            "words": best,
            "final": [subject.label(int(one)) for one in answer_T],
            "top": {layer: _tops(one[: len(labels)], subject.label, top) for layer, one in said.items()},
            "output": trace.output,
        },
    )


def _of_classes(trace: Trace, said: dict[str, Tensor], top: int, row: int) -> Result:
    subject = trace.live()
    assert subject.label is not None
    final = next(reversed(said.values()))
    kept = final.topk(min(max(top, 10), len(final))).indices.tolist()
    names = [subject.label(number) for number in kept]
    values = torch.stack([one[kept] for one in said.values()])
    winners = [subject.label(int(one.argmax())) for one in said.values()]
    return Result(
        "lens",
        f"What each layer of {trace.model} would say: {looked_at(trace, row)}",
        [Matrix("Probability of each class", list(said), names, numbers(values))],
        [f"The final answer is {winners[-1]!r}; {winners.count(winners[-1])} of {len(winners)} layers agree."],
        {"layers": list(said), "classes": names, "probabilities": values.tolist(), "winners": winners},
    )


def _tops(shares: Tensor, label: Any, top: int) -> list[list[tuple[str, float]]]:
    best = shares.topk(min(top, shares.shape[-1]))
    pairs = zip(best.indices.tolist(), best.values.tolist(), strict=True)
    return [[(label(token), share) for token, share in zip(*pair, strict=True)] for pair in pairs]
