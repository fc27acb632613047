"""A text file as one long row of a model's tokens, for methods that run a language model on a text."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import Any

from regard.core.errors import DataError, UsageError
from regard.core.lines import open_bytes

LIMIT = 5_000_000
"""The largest number of characters that are read."""
_PIECE = 50_000
_LINE_END = re.compile(r"\n(?=\S)")


def read_text(path: str) -> str:
    """The first LIMIT characters of a file, decompressed by its suffix (.gz, .xz); "\\r\\n" becomes "\\n"."""
    with open_bytes(path) as file:
        decoded = io.TextIOWrapper(file, encoding="utf-8", errors="replace", newline="")
        text = decoded.read(LIMIT).replace("\r\n", "\n")
    if not text.strip():
        raise DataError(f"{path} holds no text")
    return text


def token_ids(model: Any, text: str) -> list[int]:
    """The tokens of a text of any size, without a beginning token; encoded in pieces that end with a line."""
    return [token for ids in model.tokenizer.encode_batch(list(_pieces(text))) for token in ids]


def begin_ids(model: Any) -> list[int]:
    """The special token with which the model begins a text, as a list of its id, or an empty list."""
    (alone,) = model.tokenizer.encode_batch(["a"])
    whole = model.prompt_ids("a")
    return list(whole[: len(whole) - len(alone)])


def check_language_model(model: Any, method: str) -> None:
    """Refuse anything but a loaded language model."""
    if getattr(getattr(model, "stored", None), "task", None) != "language_model":
        task = getattr(getattr(model, "stored", None), "task", type(model).__name__)
        raise UsageError(
            f"{method} needs a language model",
            got=str(task).replace("_", " "),
            remedy="Load one: regard.load(FOLDER).",
        )


def _pieces(text: str) -> Iterator[str]:
    begin = 0
    while begin < len(text):
        line_end = _LINE_END.search(text, begin + _PIECE)
        end = line_end.end() if line_end else len(text)
        yield text[begin:end]
        begin = end
