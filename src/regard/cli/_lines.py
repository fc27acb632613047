"""Lines from standard input as they come: a file in large chunks, a person or a program one at a time."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Iterator

from regard.core.errors import DataError

_STDIN = 0


def chunks(most: int = 256) -> Iterator[list[str]]:
    """All lines that are there already, up to `most`, and never waiting while there is something to work on."""
    waiting: queue.Queue[bytes | OSError | None] = queue.Queue(maxsize=4 * most)
    threading.Thread(target=_read, args=(waiting,), daemon=True).start()
    ended = False
    while not ended:
        lines, item = [], waiting.get()
        while isinstance(item, bytes):
            lines.append(item.decode("utf-8", errors="replace").removesuffix("\r"))
            if len(lines) == most:
                break
            try:
                item = waiting.get(timeout=0.002)
            except queue.Empty:
                break
        ended = not isinstance(item, bytes)
        if lines:
            yield lines
        if isinstance(item, OSError):
            raise DataError("standard input cannot be read", got=item.strerror)


def _read(waiting: queue.Queue[bytes | OSError | None]) -> None:
    """Straight from the descriptor: a thread inside Python's own buffer would hold its lock when the program ends."""
    rest = b""
    try:
        while block := os.read(_STDIN, 1 << 16):
            *lines, rest = (rest + block).split(b"\n")
            for line in lines:
                waiting.put(line)
    except OSError as error:
        waiting.put(error)
        return
    if rest:
        waiting.put(rest)
    waiting.put(None)
