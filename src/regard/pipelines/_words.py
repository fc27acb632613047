"""Words as directions: look-up with near spellings, nearest words by cosine, analogies."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Iterable, Sequence
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.core.errors import DataError, UsageError

AnalogyMethod = Literal["add", "mul"]
_EPSILON = 1e-3


class WordSpace:
    """Words and their vectors [N,D]; `units` are the vectors at length 1. A zero vector stays zero."""

    def __init__(self, words: Sequence[str], vectors: Tensor) -> None:
        self.words, self.vectors = list(words), vectors
        self.units = F.normalize(vectors.float(), dim=-1)
        self._ids = {word: number for number, word in reversed(list(enumerate(self.words)))}

    @functools.cached_property
    def _lower(self) -> dict[str, int]:
        return {word.lower(): number for number, word in reversed(list(enumerate(self.words)))}

    def get(self, word: str) -> int | None:
        """The number of a word, as it is spelt or in lower case; None if it is not in the vocabulary."""
        return self._ids.get(word, self._lower.get(word.lower()))

    def number(self, word: str) -> int:
        """The number of a word. The error for an unknown word offers near spellings."""
        number = self.get(word)
        if number is None:
            near = self.near_spellings(word)
            raise DataError(
                f"{word!r} is not in the vocabulary of {len(self.words):,} words",
                remedy=f"Did you mean {', '.join(map(repr, near))}?" if near else None,
            )
        return number

    def near_spellings(self, word: str, most: int = 3) -> list[str]:
        """Words with nearly the same letters, the nearest first; equally near words in the order of the vocabulary."""
        wanted, alike = _pairs_of_letters(word.lower()), []
        for number, known in enumerate(self.words):
            if abs(len(known) - len(word)) > 2:
                continue
            letters = _pairs_of_letters(known.lower())
            if 3 * len(letters & wanted) >= len(letters | wanted):
                likeness = difflib.SequenceMatcher(None, word.lower(), known.lower()).ratio()
                alike.append((-round(likeness, 1), number))
        return [self.words[number] for likeness, number in sorted(alike)[:most] if likeness <= -0.6]

    def nearest(self, scores: Tensor, *, without: Iterable[int], most: int) -> list[tuple[str, float]]:
        """The words with the highest scores [N], except those in `without`."""
        left = scores.clone()
        left[torch.tensor(sorted(set(without)), dtype=torch.long)] = -torch.inf
        values, numbers = left.topk(min(most, int(left.isfinite().sum())))
        return [(self.words[n], value) for n, value in zip(numbers.tolist(), values.tolist(), strict=True)]

    def neighbours(self, word: str, most: int) -> list[tuple[str, float]]:
        """The words with the highest cosine."""
        number = self.number(word)
        return self.nearest(self.units @ self.units[number], without=[number], most=most)

    def analogy(self, a: str, b: str, c: str, most: int, method: AnalogyMethod) -> list[tuple[str, float]]:
        """The words x for which a is to b as c is to x; a, b and c themselves are left out."""
        numbers = [self.number(word) for word in (a, b, c)]
        (scores,) = self.analogy_scores(torch.tensor([numbers]), method)
        return self.nearest(scores, without=numbers, most=most)

    def analogy_scores(self, questions_Q3: Tensor, method: AnalogyMethod) -> Tensor:
        """Scores [Q,N] of every word.

        add   3CosAdd (Mikolov et al. 2013c): the cosine with b − a + c, all of length 1
        mul   3CosMul (Levy and Goldberg 2014): cos(x,b) cos(x,c) / (cos(x,a) + ε), cosines moved to 0 … 1
        """
        a, b, c = (self.units[questions_Q3[:, part]] for part in range(3))
        if method == "add":
            return F.normalize(b - a + c, dim=-1) @ self.units.T
        if method != "mul":
            raise UsageError("unknown method of analogies", got=repr(method), expected="add or mul")
        near_a, near_b, near_c = ((1 + side @ self.units.T) / 2 for side in (a, b, c))
        return near_b * near_c / (near_a + _EPSILON)

    def cosine(self, first: int, second: int) -> float:
        return float(self.units[first] @ self.units[second])


def _pairs_of_letters(word: str) -> set[str]:
    marked = f"^{word}$"
    return {marked[k : k + 2] for k in range(len(marked) - 1)}
