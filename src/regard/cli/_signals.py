"""Handles Ctrl-C and SIGTERM from the first moment: no traceback, and exit code 130 or 143.

Most of a command's first second is spent on imports. An exception that a signal raises there may turn into another one,
or be swallowed. Since nothing is open yet, the process ends at once. Elsewhere the exception closes what is open.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_NUMBERS = (signal.SIGINT, signal.SIGTERM)


class Stopped(BaseException):
    """A signal asks the program to end; open files are closed on the way out."""


@contextmanager
def noted(*, program: bool) -> Iterator[list[int]]:
    """The numbers of the signals received so far; the first one raises `Stopped`.

    `program`: this command is the whole process, and signals end it without a message. A signal that is ignored from
    the start, as in the background, stays ignored. Outside the main thread signals are not handled.
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
