"""A text file as one long row of a model's tokens, for methods that ask what a language model makes of a text."""

from __future__ import annotations

import gzip
import lzma
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from regard.core.errors import DataError, UsageError

LIMIT = 5_000_000
"""Characters that are read at most."""
_PIECE = 50_000
_LINE_END = re.compile(r"\n(?=\S)")
_OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open}


def read(path: str) -> str:
    """The first LIMIT characters of a file, unpacked by its suffix (.gz, .xz); carriage returns before line ends go."""
    opener = _OPENERS.get(Path(path).suffix, open)
    try:
        with opener(path, "rt", encoding="utf-8", errors="replace", newline="") as file:
            text = str(file.read(LIMIT)).replace("\r\n", "\n")
    except (EOFError, OSError, lzma.LZMAError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DataError(
            f"{path} cannot be read", got=reason, remedy="Give the path of a readable text file."
        ) from error
    if not text.strip():
        raise DataError(f"{path} holds no text")
    return text


def token_ids(model: Any, text: str) -> list[int]:
    """The tokens of a text of any size, without a beginning mark; encoded in pieces that end with a line."""
    return [one for ids in model.tokenizer.encode_batch(list(_pieces(text))) for one in ids]


def begin_ids(model: Any) -> list[int]:
    """The mark that the model wants before a text, as a list of one, or nothing."""
    (alone,) = model.tokenizer.encode_batch(["a"])
    whole = model.prompt_ids("a")
    return list(whole[: len(whole) - len(alone)])


def check_writes(model: Any, method: str) -> None:
    """Refuse what is no loaded language model."""
    if getattr(getattr(model, "stored", None), "task", None) != "language_model":
        task = getattr(getattr(model, "stored", None), "task", type(model).__name__)
        raise UsageError(
            f"{method} needs a language model",
            got=str(task).replace("_", " "),
            remedy="Load one that was trained to write on: regard.load(FOLDER).",
        )


def _pieces(text: str) -> Iterator[str]:
    begin = 0
    while begin < len(text):
        found = _LINE_END.search(text, begin + _PIECE)
        end = found.end() if found else len(text)
        yield text[begin:end]
        begin = end
