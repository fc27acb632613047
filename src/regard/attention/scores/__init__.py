"""How well a query matches each key: one file per score (the table "Alignment scores"), found by its file name."""

from __future__ import annotations

import functools
from typing import cast

from jaxtyping import Float
from torch import Tensor

from regard.core import lookup
from regard.core.contracts import Score


def make_score(
    name: str,
    d_query: int | None = None,
    d_key: int | None = None,
    *,
    d_hidden: int | None = None,
    max_keys: int | None = None,
) -> Score:
    """Make the score `name` with the sizes that it needs: `make_score("additive", 256, 512)`."""
    offers = {"d_query": d_query, "d_key": d_key, "d_hidden": d_hidden, "max_keys": max_keys}
    return cast(Score, lookup.build(__name__, name, **offers))


class PreparedKeys:
    """A score for keys that its `prepare` has processed: `attend(q, prepared, v, score=PreparedKeys(s))`."""

    same_width = False

    def __init__(self, score: Score) -> None:
        self._score, self.by_index = score, score.by_index

    def __call__(self, query: Float[Tensor, "*BH Q E"], keys: Float[Tensor, "*BG K D"]) -> Float[Tensor, "*BH Q K"]:
        return self.compare(query, keys)

    def prepare(self, keys: Float[Tensor, "*BG K D"]) -> Float[Tensor, "*BG K D"]:
        return keys

    def compare(self, query: Float[Tensor, "*BH Q E"], prepared: Float[Tensor, "*BG K D"]) -> Float[Tensor, "*BH Q K"]:
        return self._score.compare(query, prepared)

    def as_dot(self, query: Float[Tensor, "*BH Q E"], keys: Float[Tensor, "*BG K D"]) -> None:
        return None


@functools.cache
def shared_score(name: str) -> Score:
    """The shared instance of a score without weights; a score with weights is a usage error."""
    return make_score(name)
