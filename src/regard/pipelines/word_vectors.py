"""Word vectors: nearest words, analogies, and a picture of chosen words."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor

from regard.core.errors import UsageError
from regard.pipelines._loaded import Accepted, Loaded
from regard.pipelines._verbs import verb
from regard.pipelines._words import AnalogyMethod, WordSpace
from regard.views.result import Points, Result

_NEEDS = "word vectors"


class WordVectorsPipeline(Loaded):
    usage = "regard neighbours FOLDER WORD"
    accepts: ClassVar[tuple[Accepted, ...]] = ()

    @functools.cached_property
    def space(self) -> WordSpace:
        """The words, without special tokens, and their vectors."""
        own, vectors = self.tokenizer.whole_words(), self.model.vectors()
        return WordSpace(list(own.values()), vectors[torch.tensor(list(own), dtype=torch.long)])

    @verb(_NEEDS)
    def neighbours(self, words: Sequence[str], *, top: int = 10) -> list[list[tuple[str, float]]]:
        """For each word, the words with the highest cosines, and these cosines."""
        _check(words, top)
        return [self.space.neighbours(word, top) for word in words]

    @verb(_NEEDS)
    def analogy(
        self, a: str, b: str, c: str, *, top: int = 5, method: AnalogyMethod = "add"
    ) -> list[tuple[str, float]]:
        """a is to b as c is to …: the best words and their scores, by 3CosAdd ("add") or 3CosMul ("mul")."""
        _check([a, b, c], top)
        return self.space.analogy(a, b, c, top, method)

    @verb(_NEEDS, command=False)
    def vector(self, word: str) -> Tensor:
        """The vector of a word [D]."""
        return self.space.vectors[self.space.number(word)]

    @verb(_NEEDS, command=False)
    def picture(self, words: Sequence[str]) -> Result:
        """The words in the plane in which their directions differ most: `.save("words.svg")`."""
        _check(words, 1)
        chosen = list(dict.fromkeys(words))
        if len(chosen) < 3:
            raise UsageError("a picture needs at least three different words", got=len(chosen))
        units = self.space.units[torch.tensor([self.space.number(word) for word in chosen])]
        plane, share = _plane(units)
        points = [(float(x), float(y), word) for (x, y), word in zip(plane.tolist(), chosen, strict=True)]
        note = f"The two main directions hold {share:.0%} of the words' variance."
        panel = Points("words", "first direction", "second direction", points, note=note)
        title = f"{len(chosen)} words by their first two principal components"
        return Result("words", title, [panel], [note], {"words": chosen, "points": plane.tolist(), "share": share})


def _plane(units: Tensor) -> tuple[Tensor, float]:
    """The first two principal components [N,2] of vectors [N,D], and their share of the variance."""
    centred = (units - units.mean(0)).double()
    left, sizes, _ = torch.linalg.svd(centred, full_matrices=False)
    # The sign of a component is arbitrary: the largest entry is made positive, so that the picture is always the same.
    plane = left[:, :2] * sizes[:2]
    plane = plane * plane.gather(0, plane.abs().argmax(0, keepdim=True)).sign()
    return plane, float(sizes[:2].square().sum() / sizes.square().sum().clamp_min(1e-30))


def _check(words: Sequence[str], top: int) -> None:
    if isinstance(words, str):
        raise UsageError("words must be a list", got="one str", remedy="Put it into a list.")
    if not words:
        raise UsageError("no word is given", remedy="Give at least one word.")
    if top < 1:
        raise UsageError("top is too small", got=top, expected="1 or more")
