"""Reads files from elsewhere, with a size limit and errors that name the file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from regard.core.errors import DataError

REMEDY = "Copy or download the file again."
# The largest vocabularies in use are about 35 MB; a much larger file is not a vocabulary.
_LARGEST = 64 * 2**20


def read_bytes(path: Path) -> bytes:
    try:
        size = path.stat().st_size
        if size > _LARGEST:
            raise DataError(f"{path} is too large", got=f"{size} bytes", expected=f"at most {_LARGEST}", remedy=REMEDY)
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read", got=error.strerror or error, remedy=REMEDY) from error


def text(path: Path) -> str:
    try:
        return read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 text", got=error, remedy=REMEDY) from error


def mapping(path: Path) -> dict[str, Any]:
    """The JSON mapping in a file; empty if the file does not exist."""
    if not path.is_file():
        return {}
    try:
        content = json.loads(text(path))
    except (ValueError, RecursionError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path} is not valid JSON", got=str(error)[:200], remedy=REMEDY) from error
    if not isinstance(content, dict):
        raise DataError(f"{path} is not a mapping", got=type(content).__name__, remedy=REMEDY)
    return content


def vocabulary(path: Path) -> dict[str, int]:
    """A mapping of tokens to distinct ids."""
    ids = mapping(path)
    good = bool(ids) and all(type(id) is int and 0 <= id < 2**31 for id in ids.values())
    if not good or len(set(ids.values())) != len(ids):
        raise DataError(f"{path} is not a vocabulary", expected="tokens with distinct ids", remedy=REMEDY)
    return ids
