"""Reads text files line by line: plain, gzip or xz, of any size.

Only "\\n" ends a line, so that line numbers agree between the two files of a parallel text and with other tools.
Python's own text mode also ends a line at a lone "\\r", and `str.splitlines` at U+2028. A carriage return before a line
end is dropped. Lines of compressed files have a maximum length, since a small file can hold a line that fills the
memory. A line that is not UTF-8 keeps its line number; its invalid bytes become U+FFFD, and it is counted.
"""

from __future__ import annotations

import codecs
import gzip
import lzma
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, BinaryIO, cast

from regard.core.errors import DataError

_OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open}
LONGEST_LINE = 1 << 27
"""The maximum number of bytes in a line of a compressed file or of standard input."""
_malformed: ContextVar[dict[str, int] | None] = ContextVar("malformed", default=None)
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


@contextmanager
def open_bytes(path: str | Path) -> Iterator[BinaryIO]:
    """Open a file to read, decompressed by its suffix; errors in the block name the file."""
    path = Path(path)
    try:
        with _opened(path) as file:
            yield file
    except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile) as error:
        raise DataError(f"{path} is damaged or cut short", got=error, remedy="Copy or download it again.") from error
    except OSError as error:
        reason = error.strerror or error
        raise DataError(f"{path} cannot be read", got=reason, remedy="Give the path of a readable file.") from error


def open_lines(path: str | Path) -> Iterator[bytes]:
    """Yield the lines of a file without line ends, decompressed by its suffix. It is opened at the first line."""
    # A line of a plain file is no longer than the file; a compressed megabyte may hold a line of a gigabyte.
    longest = LONGEST_LINE if Path(path).suffix.lower() in _OPENERS else -2
    with open_bytes(path) as file:
        while line := file.readline(longest + 1):
            if len(line) == longest + 1:
                raise too_long(path)
            yield line.removesuffix(b"\n").removesuffix(b"\r")


@contextmanager
def malformed() -> Iterator[dict[str, int]]:
    """Collect the number of lines that are not UTF-8, by file, for all files that are read in the block."""
    counts: dict[str, int] = {}
    token = _malformed.set(counts)
    try:
        yield counts
    finally:
        _malformed.reset(token)


def malformed_note(path: str, count: int) -> str:
    """What to say of a file with lines that are not UTF-8."""
    lines = "1 line is" if count == 1 else f"{count:,} lines are"
    return f"note: {path}: {lines} not UTF-8; invalid bytes became U+FFFD"


def read_lines(path: str | Path, on_malformed: Callable[[], None] | None = None) -> Iterator[str]:
    """Yield the lines of a UTF-8 file, without a byte order mark.

    `on_malformed` is called for each line that is not UTF-8, before the line is yielded with U+FFFD for invalid bytes.
    Without it, `malformed` collects their number.
    """
    on_malformed = on_malformed or _counting(str(path))
    for number, line in enumerate(open_lines(path)):
        if number == 0:
            line = _without_byte_order_mark(line, path)
        try:
            yield line.decode("utf-8")
        except UnicodeDecodeError:
            on_malformed()
            yield line.decode("utf-8", errors="replace")


def _counting(path: str) -> Callable[[], None]:
    """Counts the malformed lines of one reading of a file; of several readings the largest number is kept."""
    counts, count = _malformed.get(), 0

    def add() -> None:
        nonlocal count
        count += 1
        if counts is not None:
            counts[path] = max(counts.get(path, 0), count)

    return add


def too_long(source: object) -> DataError:
    """The error for a line that is too long."""
    return DataError(
        f"{source} has a line that is too long",
        got=f"more than {LONGEST_LINE:,} bytes",
        remedy="Add line ends. If the line is meant to be this long, decompress the file.",
    )


def read_whole(path: str | Path, most: int = 1 << 28) -> bytes:
    """All bytes of a file, decompressed by its suffix. A compressed file with more than `most` bytes is refused."""
    with open_bytes(path) as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise DataError(
            f"{path} is too large", got=f"more than {most:,} bytes", remedy="Check that this is the right file."
        )
    return data


def _opened(path: Path) -> BinaryIO:
    suffix = path.suffix.lower()
    if suffix in _OPENERS and path.is_file() and path.stat().st_size == 0:
        raise EOFError("no bytes at all")  # gzip reads this as empty text, but no compressor writes it
    return cast(BinaryIO, _OPENERS.get(suffix, open)(path, "rb"))


def _without_byte_order_mark(line: bytes, path: str | Path) -> bytes:
    if line.startswith(_UTF16):
        raise DataError(f"{path} is UTF-16", expected="UTF-8", remedy="Convert it: iconv -f UTF-16 -t UTF-8.")
    return line.removeprefix(codecs.BOM_UTF8)
