"""How texts become rows for a model: with [CLS] and [SEP], or without for models that read from left to right."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from regard.data.text.rows import plain_rows, rows
from regard.data.text_rows import Lay


def layout(cls: bool, extra: Mapping[str, Any]) -> Lay:
    """`cls`: rows have [CLS] and [SEP]. `extra` are the model folder's other settings, such as whether a text begins
    with a special token, and which.
    """
    if cls:
        return rows
    begin = extra.get("tokens", {}).get("bos") if extra.get("begin") else None
    return functools.partial(plain_rows, begin=begin)
