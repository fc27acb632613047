"""How texts are laid out in rows for a model: with [CLS] and [SEP], or plainly where it reads from left to right."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from regard.data.text.rows import plain_rows, rows
from regard.data.text_rows import Lay


def layout(cls: bool, extra: Mapping[str, Any]) -> Lay:
    """`cls`: rows carry [CLS] and [SEP]. `extra` is what the model folder says besides: whether a text begins with a
    special token, and which.
    """
    if cls:
        return rows
    begin = extra.get("tokens", {}).get("bos") if extra.get("begin") else None
    return functools.partial(plain_rows, begin=begin)
