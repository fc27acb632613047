"""Ctrl-C and SIGTERM let the current update finish; the run then writes a checkpoint and exits with 130 or 143."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator

from regard.core.errors import RegardError

STOPPING = (signal.SIGINT, signal.SIGTERM)


class Interrupted(RegardError):
    """A signal asked the run to stop; a checkpoint was written."""

    def __init__(self, number: int, step: int) -> None:
        super().__init__(f"stopped at update {step}, checkpoint written", remedy="The same command resumes it.")
        self.exit_code = 128 + number


@contextlib.contextmanager
def noted_signals() -> Iterator[list[int]]:
    """The signals received so far. Outside the main thread signals are not handled."""
    received: list[int] = []

    def note(number: int, frame: object) -> None:
        received.append(number)

    try:
        before = {number: signal.signal(number, note) for number in STOPPING}
    except ValueError:
        yield received
        return
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
