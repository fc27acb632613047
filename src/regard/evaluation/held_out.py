"""Held-out data with a model run on it: what evaluators look at."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from regard.core.measured import Measured
from regard.pipelines import Loaded, make_pipeline
from regard.store import StoredModel


class HeldOut:
    """`measured` is what the task read off the batches. `material` is what else the held-out data offers, by name:

    inputs, references       what to generate text for, and for each the texts that would be right
    classes                  the names of the classes; `measured` holds logits and class numbers
    numbers                  True: `measured` holds numbers and what was wanted
    questions, windows       of span question answering, with `longest` and `threshold` of answers
    words, characters        how many the held-out text has
    """

    def __init__(self, measured: Measured, material: Mapping[str, Any], stored: Callable[[], StoredModel]) -> None:
        self.measured, self.material = measured, material
        self._stored = stored
        self._texts: dict[tuple[tuple[str, Any], ...], list[str]] = {}

    @functools.cached_property
    def model(self) -> Loaded:
        """The model with its verbs."""
        return make_pipeline(self._stored())

    def texts(self, **search: Any) -> list[str]:
        """What the model writes for each input; evaluators with the same search share one decoding."""
        key = tuple(sorted(search.items()))
        if key not in self._texts:
            self._texts[key] = self.model.texts(self.material["inputs"], **search)
        return self._texts[key]

    @property
    def references(self) -> Sequence[Sequence[str]]:
        references: Sequence[Sequence[str]] = self.material["references"]
        return references
