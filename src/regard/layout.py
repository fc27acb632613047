"""How texts are laid out in rows for a model: with BERT's marks, or plainly where it reads from left to right."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from regard.core import lookup
from regard.data.text.rows import plain_rows, rows
from regard.data.text_rows import Lay


def marked(name: str) -> bool:
    """Whether rows of the model `name` carry [CLS] and [SEP]: those of models that cannot write do."""
    return not hasattr(lookup.find("regard.models", name), "step")


def layout(name: str, extra: Mapping[str, Any]) -> Lay:
    """`extra` is what the model folder says besides: whether texts begin with a mark, and which."""
    if marked(name):
        return rows
    begin = extra.get("tokens", {}).get("bos") if extra.get("begin") else None
    return functools.partial(plain_rows, begin=begin)
