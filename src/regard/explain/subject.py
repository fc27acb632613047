"""What is looked at: a model, its inputs, and how to read its answer. Pipelines make these (`loaded.subject(text)`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor

from regard.core.errors import UsageError


@dataclass(frozen=True)
class Subject:
    """A model with its inputs (first axis: rows), and how to read its answer."""

    name: str
    task: str
    run: Callable[..., Any]
    """Called with `inputs`; gives what `score` reads."""
    inputs: Mapping[str, Tensor]
    sides: Mapping[str, list[list[str]]]
    """Labels of what the axes of sites stand for: the tokens of "input", or of "source", "target" (what each step
    writes) and "prefix" (what it has just read), the patches of "image", … The first has a list for each row of the
    inputs; one whose sites have several rows an input (the words of each sentence) has a list for each of those."""
    score: Callable[[Any, Mapping[str, Tensor]], Tensor] | None = None
    """What is explained, one number a row [B] (a log-probability); it also gets `goal`."""
    goal: Mapping[str, Tensor] = field(default_factory=dict)
    ids: Mapping[str, Tensor] = field(default_factory=dict)
    output: Mapping[str, Any] = field(default_factory=dict)
    head_logits: Callable[[Tensor], Tensor | None] | None = None
    """The logits that a block's output would give if it were the last."""
    label: Callable[[int], str] | None = None
    """The word or class of one of those logits."""
    token_embedding: Tensor | None = None
    grids: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Of sides that are images: rows and columns of patches; special tokens come before them."""
    untrained: Callable[[int], Subject] | None = None
    """The same with new random weights, by seed."""
    texts: Sequence[str] = ()
    """What each row was before it became tokens, for titles; none: images, or not known."""

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
        return replace(self, inputs=inputs, goal=goal, ids=ids, sides=sides, texts=texts)

    def scores(self) -> Tensor:
        """Run, and read the answer [B]."""
        if self.score is None:
            raise UsageError(
                f"this {self.name} has no answer to explain",
                got=f"a model for {self.task.replace('_', ' ')} without a head",
                remedy="Look at its attention or hidden states instead, or give a target.",
            )
        return self.score(self.run(**self.inputs), self.goal)
