"""The logits of classifiers as named classes, for texts, tokens and images.

A folder says how its logits are read: as probabilities that sum to 1 (softmax: one class is right), as one probability
per class (sigmoid: any number of classes can be right, `multi_label`), or as numbers (`regression`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from regard.core.errors import ConfigError
from regard.core.names import distinct

_LIKELY = 0.5


@dataclass(frozen=True)
class Classified:
    """The most probable class with its probability, or the number of a regression; `scores` are those of all classes.

    `labels` are the predicted classes: the most probable one, or for a multi-label model all with a probability of at
    least 0.5, the most probable first, which may be none.
    """

    label: str
    score: float
    scores: dict[str, float] = field(repr=False)
    labels: tuple[str, ...] = ()


def probabilities(logits: Tensor, extra: Mapping[str, Any]) -> Tensor:
    """The probabilities (or numbers) for logits [..., C] of a model whose folder has the settings `extra`."""
    if extra.get("regression"):
        return logits.float()
    return logits.float().sigmoid() if extra.get("multi_label") else logits.float().softmax(-1)


def class_names(extra: Mapping[str, Any], count: int) -> list[str]:
    """The distinct names of the classes: where two classes share a name (ImageNet has two cranes), their numbers are
    added."""
    listed = extra.get("labels")
    if not listed:
        return [f"LABEL_{number}" for number in range(count)]
    if not isinstance(listed, list) or len(listed) != count:
        got = f"{len(listed)} names" if isinstance(listed, list) else repr(listed)[:80]
        raise ConfigError("the folder's labels do not fit its classes", got=got, expected=f"a list of {count} names")
    return distinct([str(name) for name in listed])


def classified(names: Sequence[str], row: Sequence[float], extra: Mapping[str, Any]) -> Classified:
    """One row of `probabilities`, with distinct names."""
    scores = dict(zip(names, row, strict=True))
    if extra.get("regression"):
        return Classified(f"{row[0]:.3f}", row[0], scores, (f"{row[0]:.3f}",))
    order = sorted(scores, key=scores.__getitem__, reverse=True)
    likely = [name for name in order if scores[name] >= _LIKELY] if extra.get("multi_label") else order[:1]
    return Classified(order[0], scores[order[0]], scores, tuple(likely))
