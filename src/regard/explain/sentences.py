"""The tokens of many sentences in every layer, and a split of the sentences into training, held-out and test.

Sentences are split, never tokens; equal sentences count as one, so that none is on both sides.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from regard.core.errors import UnknownName, UsageError
from regard.explain.traces import Trace

_FEWEST = 4
_HELD = 0.2


@dataclass(frozen=True)
class Division:
    """Rows of the trace: to fit maps, to choose ridges and epochs, to test."""

    train: list[int]
    held: list[int]
    test: list[int]


@dataclass(frozen=True)
class Sample:
    """The real tokens of one side of a trace, row by row."""

    side: str
    inputs: list[Tensor]
    layers: dict[str, list[Tensor]]
    ids: list[Tensor] | None
    vocabulary_VD: Tensor | None
    sentences: list[bytes]
    """A key that is equal for rows with the same input."""


def divide(sentences: Sequence[object], test_share: float, seed: int) -> Division:
    """Split the rows into training, held-out and test; equal sentences stay together."""
    groups: dict[object, list[int]] = {}
    for row, sentence in enumerate(sentences):
        groups.setdefault(sentence, []).append(row)
    if not 0 < test_share < 1:
        raise UsageError("test_share is out of range", got=test_share, expected="between 0 and 1")
    if len(groups) < _FEWEST:
        raise UsageError(
            "too few sentences to train on some and test on others",
            got=f"{len(groups)} different",
            expected=f"at least {_FEWEST}",
            remedy="Give more texts; with a hundred sentences the shares are accurate to a few per cent.",
        )
    order = list(groups.values())
    random.Random(seed).shuffle(order)
    n_test = min(max(1, round(test_share * len(order))), len(order) - 2)
    n_held = max(1, round(_HELD * (len(order) - n_test)))
    flat = [sorted(row for group in part for row in group) for part in
            (order[n_test + n_held :], order[n_test : n_test + n_held], order[:n_test])]  # fmt: skip
    return Division(*flat)


def sample(trace: Trace, layers: str | None) -> Sample:
    """The states of the requested layers, cut to each row's length."""
    entries = [name for name in trace.hidden if name.endswith(".input")]
    if not entries:
        raise UsageError("the trace has no hidden states", remedy="Trace with hidden=True.")
    names = [name.strip() for name in (layers or entries[0].split(".")[0]).split(",")]
    part = names[0].split(".")[0]
    if f"{part}.input" not in trace.hidden:
        raise UnknownName("side or layer", names[0], [*(name.split(".")[0] for name in entries), *trace.hidden])
    own = [name for name in trace.layers() if name.split(".")[0] == part]
    chosen = own if names == [part] else names
    for name in chosen:
        if name not in own:
            raise UnknownName(f"layer of the {part}", name, own)
    side = trace.side_of(f"{part}.input")
    rows = trace.sides[side]

    def real(tensor: Tensor) -> list[Tensor]:
        return [tensor[row, : len(labels)] for row, labels in enumerate(rows)]

    # If there are several sides, the token embeddings are those of the encoder.
    ids = trace.ids.get(side) if len(trace.sides) == 1 or part == "encoder" else None
    table = None if trace.subject is None or ids is None else trace.subject.token_embedding
    states = {name: real(trace.hidden[name].detach().float()) for name in chosen}
    inputs = real(trace.hidden[f"{part}.input"].detach().float())
    table = None if table is None else table.detach().float()
    known = trace.ids.get(side)
    sentences = [row.numpy().tobytes() for row in (inputs if known is None else real(known))]
    return Sample(part, inputs, states, None if ids is None else real(ids), table, sentences)
