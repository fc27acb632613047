"""Position schemes: one file per scheme, found by its file name. A scheme acts in one of three places."""

from __future__ import annotations

from typing import cast

from regard.attention.positions._scheme import Position
from regard.core import lookup


def make_position(
    name: str,
    *,
    d_model: int | None = None,
    d_head: int | None = None,
    n_heads: int | None = None,
    max_len: int | None = None,
    bidirectional: bool | None = None,
) -> Position:
    """Make the scheme `name` with the sizes that it needs: `make_position("learned", d_model=512, max_len=1024)`."""
    offers = {
        "d_model": d_model,
        "d_head": d_head,
        "n_heads": n_heads,
        "max_len": max_len,
        "bidirectional": bidirectional,
    }
    return cast(Position, lookup.build(__name__, name, **offers))


def is_bounded(name: str) -> bool:
    """Whether a model with the scheme `name` reads at most its `max_len` tokens."""
    return bool(lookup.find(__name__, name).bounded)


__all__ = ["Position", "is_bounded", "make_position"]
