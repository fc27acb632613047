"""Metrics over a whole held-out set, one file per evaluator. A recipe chooses them by file name:

    evaluation: [bleu, {name: chrf, beam: 4}]

A file defines a class with its name. `directions` gives its metrics and whether each should be high or low, `needs`
what the held-out data must offer (see `HeldOut`). The fields of the class are its options.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

from regard.core import lookup
from regard.core.config import Config
from regard.core.directions import Direction
from regard.core.errors import ConfigError, UnknownName
from regard.evaluation.held_out import HeldOut

Choice = str | dict[str, Any]


class Evaluator(Config):
    """An evaluator; its fields are its options in a recipe."""

    directions: ClassVar[Mapping[str, Direction]]
    needs: ClassVar[tuple[str, ...]]

    def __call__(self, held_out: HeldOut) -> dict[str, float]:
        raise NotImplementedError


def names() -> tuple[str, ...]:
    return lookup.names(__name__)


def make_evaluator(choice: Choice) -> Evaluator:
    """An evaluator by name, or by a mapping with its name and options."""
    options = {"name": choice} if isinstance(choice, str) else dict(choice)
    name = options.pop("name", None)
    if name not in names():
        raise UnknownName("evaluator", str(name), names())
    made: Evaluator = lookup.find(__name__, name).parse(options, f"evaluator {name}")
    return made


def evaluators_for(
    metric: str,
    chosen: Sequence[Evaluator],
    known: Mapping[str, Direction],
    offers: Collection[str],
) -> list[Evaluator]:
    """The chosen evaluators, plus one that gives `metric` if neither they nor the task do (`known`)."""
    for evaluator in chosen:
        if missing := [name for name in evaluator.needs if name not in offers]:
            raise ConfigError(
                f"evaluator {_name(evaluator)} does not fit this task",
                got=f"held-out data without {', '.join(missing)}",
                expected=f"one of {', '.join(fitting(offers)) or 'none'}",
            )
    given = {**known, **directions_of(chosen)}
    if metric in given:
        return list(chosen)
    for name in fitting(offers):
        if metric in lookup.find(__name__, name).directions:
            return [*chosen, make_evaluator(name)]
    others = [lookup.find(__name__, name).directions for name in fitting(offers)]
    raise UnknownName("training.metric", metric, sorted({*given, *(name for names in others for name in names)}))


def fitting(offers: Collection[str]) -> list[str]:
    """The evaluators whose needs this held-out data meets."""
    return [name for name in names() if set(lookup.find(__name__, name).needs) <= set(offers)]


def directions_of(evaluators: Sequence[Evaluator]) -> dict[str, Direction]:
    return {name: direction for evaluator in evaluators for name, direction in evaluator.directions.items()}


def _name(evaluator: Evaluator) -> str:
    return type(evaluator).__module__.rsplit(".", 1)[-1]
