"""Labels of examples, as class numbers or as real numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from regard.core.errors import DataError
from regard.data.tables import Example

_MOST_CLASSES = 10_000


def classes(examples: Sequence[Example]) -> tuple[str, ...]:
    """The classes that occur: in numerical order if they are numbers, else in alphabetical order."""
    labels = sorted({example.label for example in examples})
    if not 1 < len(labels) <= _MOST_CLASSES:
        raise DataError(
            "the labels do not form classes",
            got=f"{len(labels)} different labels",
            expected=f"2 to {_MOST_CLASSES}",
            remedy="Check data's label column; for numbers set data.regression.",
        )
    numeric = all(label.isascii() and label.isdigit() for label in labels)
    return tuple(sorted(labels, key=int) if numeric else labels)


def class_numbers(examples: Sequence[Example], labels: Sequence[str]) -> Tensor:
    """The class number of each example's label."""
    places = {label: number for number, label in enumerate(labels)}
    for row, example in enumerate(examples, 1):
        if example.label not in places:
            known = ", ".join(labels[:10]) + ("…" if len(labels) > 10 else "")
            raise DataError(f"row {row} has an unknown label", got=repr(example.label[:40]), expected=known)
    return torch.tensor([places[example.label] for example in examples])


def numbers(examples: Sequence[Example]) -> Tensor:
    """The labels as numbers."""
    values = []
    for row, example in enumerate(examples, 1):
        try:
            values.append(float(example.label))
        except ValueError:
            values.append(math.nan)
        if not math.isfinite(values[-1]):
            raise DataError(f"row {row} has a label that is not a number", got=repr(example.label[:40]))
    return torch.tensor(values)
