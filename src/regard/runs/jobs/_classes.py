"""The classes of a model to start from: its own names, in the order of its logits."""

from __future__ import annotations

from collections.abc import Iterable

from regard.core.errors import DataError
from regard.core.names import distinct
from regard.core.weights import brief
from regard.runs.setup import Setup


def known_classes(setup: Setup, wanted: Iterable[str]) -> list[str] | None:
    """The classes of the model to start from if the `wanted` ones are among them; None: the data decides.

    The classes of a model for another task do not count. Other classes mean a new head. An evaluation has no new head,
    so it refuses them; but if the model's classes have no names (LABEL_0, LABEL_1), the data's order is taken for its.
    """
    known = _names(setup)
    if not known:
        return None
    unknown = sorted(set(wanted) - set(known))
    if not unknown:
        return known
    if setup.evaluating and known != [f"LABEL_{number}" for number in range(len(known))]:
        raise DataError(
            "the model does not have some of the classes in the data",
            got=brief(unknown),
            expected=f"only {brief(known)}",
            remedy="Use data with the model's classes, or rename those in the data.",
        )
    return None


def _names(setup: Setup) -> list[str]:
    start = setup.start
    if start is None or start.task != setup.recipe.task or start.extra.get("regression"):
        return []
    names = distinct([str(name) for name in start.extra.get("labels") or ()])
    return names if getattr(start.config, "n_labels", len(names)) == len(names) else []
