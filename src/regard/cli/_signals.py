"""Ctrl-C and SIGTERM from the first moment on: no traceback, and exit code 130 or 143.

Most of a command's first second goes into imports. An exception that a signal raises there may come out as another one,
or be swallowed; since nothing is open yet, the process ends at once. Elsewhere the exception closes what is open.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_NUMBERS = (signal.SIGINT, signal.SIGTERM)


class Stopped(BaseException):
    """A signal asks the program to end; what is open is closed on the way out."""


@contextmanager
def noted(*, program: bool) -> Iterator[list[int]]:
    """The numbers of the signals that came meanwhile; the first raises `Stopped`.

    `program`: the process is this command, and ends after it. Signals then end it without a word. A signal that is
    ignored from the start, as in the background, stays so; outside the main thread signals are left alone.
    """
    received: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        received.append(number)
        if len(received) > 1 or (program and _importing(frame)):
            os.write(2, b"regard: interrupted\n")
            os._exit(128 + number)
        raise Stopped

    before = {}
    try:
        for number in _NUMBERS:
            if signal.getsignal(number) not in (signal.SIG_IGN, None):
                before[number] = signal.signal(number, stop)
    except ValueError:
        pass
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if program else handler)


def _importing(frame: FrameType | None) -> bool:
    """Whether the program is inside an import."""
    while frame is not None:
        if "importlib._bootstrap" in frame.f_code.co_filename:
            return True
        frame = frame.f_back
    return False
