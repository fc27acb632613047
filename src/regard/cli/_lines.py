"""Reads lines from standard input as they come: a file in large chunks, a person or a program one at a time.

Text is UTF-8. Invalid bytes become U+FFFD, and the number of lines with them is printed on standard error at the end.
"""

from __future__ import annotations

import codecs
import os
import queue
import stat
import sys
import threading
from collections.abc import Callable, Iterator

from regard.core.errors import DataError, RegardError
from regard.core.lines import LONGEST_LINE, too_long

_STDIN = 0
_NAME = "standard input"


def chunks(most: int = 256) -> Iterator[list[str]]:
    """Yield all lines that are available, up to `most`, without waiting while there is something to work on."""
    waiting: queue.Queue[bytes | Exception | None] = queue.Queue(maxsize=4 * most)
    threading.Thread(target=_read, args=(waiting,), daemon=True).start()
    ended, malformed, first = False, Malformed(_NAME), True
    while not ended:
        lines, item = [], waiting.get()
        while isinstance(item, bytes):
            line = item.removeprefix(codecs.BOM_UTF8) if first else item
            lines.append(malformed.decoded(line.removesuffix(b"\r")))
            first = False
            if len(lines) == most:
                break
            try:
                item = waiting.get(timeout=0.002)
            except queue.Empty:
                break
        ended = not isinstance(item, bytes)
        if lines:
            yield lines
        if isinstance(item, RegardError):
            raise item
        if isinstance(item, OSError):
            raise DataError("standard input cannot be read", got=item.strerror)
    malformed.tell()


def line_counter() -> Callable[[], int | None]:
    """Counts the lines of standard input from the current position, without reading them; None if it is not a file."""
    try:
        start = os.lseek(_STDIN, 0, os.SEEK_CUR) if stat.S_ISREG(os.fstat(_STDIN).st_mode) else None
    except OSError:
        start = None

    def count() -> int | None:
        if start is None:
            return None
        place, lines, last = start, 0, b"\n"
        while block := os.pread(_STDIN, 1 << 20, place):
            place, lines, last = place + len(block), lines + block.count(b"\n"), block[-1:]
        return lines + (last != b"\n")

    return count


def read_all() -> list[str]:
    """All lines of standard input, read to its end."""
    source, malformed = getattr(sys.stdin, "buffer", None), Malformed(_NAME)
    data = source.read(LONGEST_LINE + 1) if source is not None else sys.stdin.read().encode()
    if len(data) > LONGEST_LINE:
        raise too_long(_NAME)
    lines = data.removeprefix(codecs.BOM_UTF8).removesuffix(b"\n").split(b"\n")
    texts = [malformed.decoded(line.removesuffix(b"\r")) for line in lines]
    malformed.tell()
    return texts


class Malformed:
    """Decodes lines, and counts those that were not UTF-8."""

    def __init__(self, source: str) -> None:
        self.source, self.count = source, 0

    def decoded(self, line: bytes) -> str:
        try:
            return line.decode("utf-8")
        except UnicodeDecodeError:
            self.add()
            return line.decode("utf-8", errors="replace")

    def add(self) -> None:
        self.count += 1

    def tell(self) -> None:
        """Print the count once, if there were any."""
        if self.count:
            lines = "1 line" if self.count == 1 else f"{self.count} lines"
            were = "was" if self.count == 1 else "were"
            text = f"{lines} of {self.source} {were} not UTF-8; invalid bytes became \N{REPLACEMENT CHARACTER}"
            print(f"regard: note: {text}", file=sys.stderr)


def _read(waiting: queue.Queue[bytes | Exception | None]) -> None:
    """Read from the descriptor: a thread inside Python's own buffer would hold its lock when the program ends."""
    rest: list[bytes] = []
    size = 0
    try:
        while block := os.read(_STDIN, 1 << 16):
            first, *lines = block.split(b"\n")
            rest.append(first)
            size += len(first)
            if size > LONGEST_LINE:
                waiting.put(too_long(_NAME))
                return
            if lines:
                waiting.put(b"".join(rest))
                for line in lines[:-1]:
                    waiting.put(line)
                rest, size = [lines[-1]], len(lines[-1])
    except OSError as error:
        waiting.put(error)
        return
    if size:
        waiting.put(b"".join(rest))
    waiting.put(None)
