"""Lines from standard input as they come: a file in large chunks, a person or a program one at a time."""

from __future__ import annotations

import queue
import sys
import threading
from collections.abc import Iterator


def chunks(most: int = 256) -> Iterator[list[str]]:
    """All lines that are there already, up to `most`, and never waiting while there is something to work on."""
    waiting: queue.Queue[str | None] = queue.Queue(maxsize=4 * most)

    def read() -> None:
        for line in sys.stdin.buffer:
            waiting.put(line.decode("utf-8", errors="replace").rstrip("\r\n"))
        waiting.put(None)

    threading.Thread(target=read, daemon=True).start()
    ended = False
    while not ended:
        lines = [waiting.get()]
        while lines[-1] is not None and len(lines) < most:
            try:
                lines.append(waiting.get(timeout=0.002))
            except queue.Empty:
                break
        ended = lines[-1] is None
        kept = [line for line in lines if line is not None]
        if kept:
            yield kept
