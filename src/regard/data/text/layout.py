"""How texts become rows for a model: with [CLS] and [SEP], in sentences, or plain for models that read on from left to
right."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Literal

from regard.data.text.rows import plain_rows, rows
from regard.data.text.sentences import sentence_rows
from regard.data.text_rows import Lay

Layout = Literal["cls", "sentences", "plain"]


def layout(kind: Layout, extra: Mapping[str, Any]) -> Lay:
    """ "cls": rows have [CLS] and [SEP]. "sentences": their segments are the sentences. `extra` are the model folder's
    other settings, such as whether a plain text begins with a special token, and which.
    """
    if kind == "cls":
        return rows
    if kind == "sentences":
        return sentence_rows
    begin = extra.get("tokens", {}).get("bos") if extra.get("begin") else None
    return functools.partial(plain_rows, begin=begin)
