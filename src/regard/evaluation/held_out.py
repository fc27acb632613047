"""Held-out data and a model's results on it, for evaluators."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from regard.core.errors import LengthError
from regard.core.measured import Measured
from regard.pipelines import Loaded, make_pipeline
from regard.store import StoredModel


@dataclass(frozen=True)
class Sample:
    """One input with a reference and the text that the model generated."""

    input: str
    reference: str
    written: str


class HeldOut:
    """`measured` holds the task's measurements on the batches. `material` holds what else the data offers, by name:

    inputs, references       inputs to generate text for, and the right texts for each
    form                     a function that writes a generated text in the form of the references
    names                    of inputs that are no text, such as images
    classes                  the names of the classes; `measured` holds logits and class numbers
    numbers                  True: `measured` holds numbers and their targets
    questions, windows       of span question answering, with `longest` and `threshold` of answers
    words, characters        the numbers of words and characters in the held-out text
    """

    def __init__(self, measured: Measured, material: Mapping[str, Any], stored: Callable[[], StoredModel]) -> None:
        self.measured, self.material = measured, material
        self._stored = stored
        self._texts: dict[int, list[str]] = {}

    @functools.cached_property
    def model(self) -> Loaded:
        """The model with its verbs."""
        return make_pipeline(self._stored())

    def texts(self, beam: int = 1) -> list[str]:
        """The text that the model generates for each input; evaluators with the same beam share one decoding.

        1 is greedy. A recipe whose own `search` samples or lists several outputs is still measured by beams.
        """
        if beam not in self._texts:
            self._texts[beam] = self.written(beam=beam, sample=False, nbest=1)
        return self._texts[beam]

    def written(self, **search: Any) -> list[str]:
        """The text that the model generates for each input by this search, in the form of the references."""
        texts, form = self.model.texts(self.material["inputs"], **search), self.material.get("form")
        return texts if form is None else [form(text) for text in texts]

    def _searched(self, inputs: Sequence[Any], beam: int) -> list[str]:
        return self.model.texts(inputs, beam=beam, sample=False, nbest=1)

    def samples(self, count: int = 3) -> list[Sample]:
        """The texts that the model generates for a few inputs, always the same ones; none if inputs are not texts.

        If an evaluator has decoded all inputs, nothing is decoded again.
        """
        inputs = self.material.get("inputs", [])
        usable = [place for place, given in enumerate(inputs) if isinstance(given, str) and given.strip()]
        places = sorted(
            {usable[(2 * part + 1) * len(usable) // (2 * count)] for part in range(count)} if usable else ()
        )
        try:
            every = next(iter(self._texts.values()), None)
            chosen = [inputs[place] for place in places]
            written = self._searched(chosen, 1) if every is None else [every[n] for n in places]
        except LengthError:  # a line that is too long for the model must not stop the training
            return []
        references = [self.references[place][0] for place in places]
        return [Sample(*parts) for parts in zip(chosen, references, written, strict=True)]

    @property
    def references(self) -> Sequence[Sequence[str]]:
        references: Sequence[Sequence[str]] = self.material["references"]
        return references
