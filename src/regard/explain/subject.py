"""What is explained: a model, its inputs, and how to read its answer. Pipelines make it (`loaded.subject(text)`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from regard.core.errors import UsageError


@dataclass(frozen=True)
class Beside:
    """Images that a model looks at besides its input, such as exemplars: one image per row, with its text."""

    pictures: Sequence[NDArray[np.uint8]]
    texts: Sequence[str]


@dataclass(frozen=True)
class Subject:
    """A model with its inputs (first axis: rows), and how to read its answer."""

    name: str
    task: str
    run: Callable[..., Any]
    """Called with `inputs`; returns what `score` reads."""
    inputs: Mapping[str, Tensor]
    sides: Mapping[str, list[list[str]]]
    """Labels for the axes of sites: the tokens of "input", or of "source", "target" (what each step generates) and
    "prefix" (what it has just read), the patches of "image", … The first side has a list for each row of the inputs. A
    side whose sites have several rows per input (the words of each sentence) has a list for each of those rows."""
    score: Callable[[Any, Mapping[str, Tensor]], Tensor] | None = None
    """Returns the number to explain, one per row [B] (a log-probability), from the run's output and `goal`."""
    goal: Mapping[str, Tensor] = field(default_factory=dict)
    ids: Mapping[str, Tensor] = field(default_factory=dict)
    output: Mapping[str, Any] = field(default_factory=dict)
    head_logits: Callable[[Tensor], Tensor | None] | None = None
    """The logits if a block's output were the last."""
    label: Callable[[int], str] | None = None
    """The word or class of one of those logits."""
    token_embedding: Tensor | None = None
    grids: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """For sides that are images: rows and columns of patches; special tokens come before them."""
    untrained: Callable[[int], Subject] | None = None
    """Makes the same model with new random weights, by seed."""
    texts: Sequence[str] = ()
    """Each row's text before it became tokens, for titles; None for images, or if not known."""
    pictures: Sequence[NDArray[np.uint8]] = ()
    """Each row's image as the model sees it [H,W,3]; empty without images."""
    beside: Mapping[str, Beside] = field(default_factory=dict)
    """Other images that it looks at, by the side of their patches."""
    probabilities: Callable[[Tensor], Tensor] | None = None
    """What the logits of classes mean: probabilities, or the number of a regression; None: softmax."""

    @property
    def rows(self) -> int:
        return len(next(iter(self.sides.values())))

    def repeated(self, copies: int, row: int = 0) -> Subject:
        """The same row `copies` times."""

        def repeat(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
            return {name: x[row : row + 1].expand(copies, *x.shape[1:]) for name, x in tensors.items()}

        sides = {side: [labels[row]] * copies for side, labels in self.sides.items()}
        inputs, goal, ids = repeat(self.inputs), repeat(self.goal), repeat(self.ids)
        texts = [self.texts[row]] * copies if self.texts else ()
        pictures = [self.pictures[row]] * copies if self.pictures else ()
        beside = {
            side: Beside([other.pictures[row]] * copies, [other.texts[row]] * copies)
            for side, other in self.beside.items()
        }
        return replace(
            self, inputs=inputs, goal=goal, ids=ids, sides=sides, texts=texts, pictures=pictures, beside=beside
        )

    def scores(self) -> Tensor:
        """Run the model and return its answer's score [B]."""
        if self.score is None:
            raise UsageError(
                f"this {self.name} has no answer to explain",
                got=f"a model for {self.task.replace('_', ' ')} without a head",
                remedy="Look at its attention or hidden states instead, or give a target.",
            )
        return self.score(self.run(**self.inputs), self.goal)
