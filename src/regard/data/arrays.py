"""Long arrays on disk, in flat files that are memory-mapped, so that only what is used takes memory.

    NAME.bin     the numbers of one array, little-endian
    meta.json    the folder's contents: facts, and for each file its type, number of items and CRC-32

`meta.json` is removed before the other files are replaced and written after them, so that an incomplete folder is never
taken for a complete one.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from regard.core.errors import DataError
from regard.core.weights import replacing

META = "meta.json"
REMEDY = "Prepare the data again: remove this folder."
_VERSION = 1
_TYPES = ("|u1", "<u2", "<i4", "<i8", "<f2", "<f4")
Array = NDArray[Any]


@dataclass
class Flat:
    """A file of numbers of one type, with its length and sum so far."""

    file: BinaryIO
    dtype: str
    items: int = 0
    crc32: int = 0

    def write(self, numbers: Sequence[int] | Array) -> None:
        data = np.asarray(numbers, dtype=self.dtype).tobytes()
        self.file.write(data)
        self.items, self.crc32 = self.items + len(data) // np.dtype(self.dtype).itemsize, zlib.crc32(data, self.crc32)

    def meta(self) -> dict[str, Any]:
        return {"dtype": self.dtype, "items": self.items, "crc32": self.crc32}


def id_type(vocab_size: int) -> str:
    """The smallest integer type that holds the ids of a vocabulary."""
    return "<u2" if vocab_size <= 2**16 else "<i4"


@contextmanager
def writing(folder: Path, kind: str, types: Mapping[str, str], facts: dict[str, Any]) -> Iterator[dict[str, Flat]]:
    """Open files to append numbers to. When the block succeeds, they and the facts replace those in the folder."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            flats = {name: Flat(stack.enter_context(replacing(folder / f"{name}.bin")), types[name]) for name in types}
            yield flats
            (folder / META).unlink(missing_ok=True)
        with replacing(folder / META) as file:
            files = {name: flat.meta() for name, flat in flats.items()}
            file.write(json.dumps({"format": kind, "version": _VERSION, "facts": facts, "files": files}).encode())
    except OSError as error:
        raise DataError(f"{folder} was not written", got=error, remedy="Make room, or write elsewhere.") from error


def opened(folder: Path, kind: str) -> tuple[dict[str, Array], dict[str, Any]]:
    """Return the arrays by name, and the facts. Each file is read once to check its CRC-32."""
    meta = _checked_meta(folder, kind)
    return {name: _mapped(folder / f"{name}.bin", **entry) for name, entry in meta["files"].items()}, meta["facts"]


def holds(folder: Path, kind: str) -> bool:
    """Whether the folder holds complete data of this kind and version. Only `meta.json` is read."""
    try:
        _checked_meta(folder, kind)
    except DataError:
        return False
    return True


def _checked_meta(folder: Path, kind: str) -> dict[str, Any]:
    """Read `meta.json` and check it as far as possible without the other files."""
    try:
        meta = json.loads((folder / META).read_bytes())
        good = (meta["format"], meta["version"]) == (kind, _VERSION) and isinstance(meta["facts"], dict)
        for entry in meta["files"].values():
            good &= entry.keys() == {"dtype", "items", "crc32"} and entry["dtype"] in _TYPES
            good &= type(entry["items"]) is int and entry["items"] >= 0
    except OSError as error:
        raise DataError(f"{folder} holds no prepared data", got=error.strerror, remedy=REMEDY) from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DataError(f"{folder / META} is damaged", got=repr(error), remedy=REMEDY) from error
    if not good:
        raise DataError(f"{folder / META} is damaged or of another version", expected=kind, remedy=REMEDY)
    return dict(meta)


def _mapped(path: Path, *, dtype: str, items: int, crc32: int) -> Array:
    """Map a file's numbers after checking its size and CRC-32."""
    try:
        size, expected = path.stat().st_size, items * np.dtype(dtype).itemsize
        if size != expected:
            raise DataError(f"{path} is damaged", got=f"{size} bytes", expected=f"{expected} bytes", remedy=REMEDY)
        numbers: Array = np.memmap(path, dtype=dtype, mode="r") if items else np.empty(0, dtype=dtype)
    except OSError as error:
        raise DataError(f"{path} cannot be read", got=error.strerror, remedy=REMEDY) from error
    if zlib.crc32(numbers.data) != crc32:
        raise DataError(f"{path} is damaged", got="content that differs from what was written", remedy=REMEDY)
    return numbers
