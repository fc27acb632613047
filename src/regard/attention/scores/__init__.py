"""How well a query matches each key: one file a score (the table "Alignment scores"), found by its file name."""

from __future__ import annotations

import functools
from typing import cast

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
    """The score `name`, given those sizes that it needs: `make_score("additive", 256, 512)`."""
    offers = {"d_query": d_query, "d_key": d_key, "d_hidden": d_hidden, "max_keys": max_keys}
    return cast(Score, lookup.build(__name__, name, **offers))


@functools.cache
def shared_score(name: str) -> Score:
    """The one instance of a score that has no weights; asking for one that has is a usage error."""
    return make_score(name)
