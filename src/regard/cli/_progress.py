"""Progress of a long command: one line on standard error if that is a terminal, removed when the command ends.

Nothing is shown in the first second of work, so that short calls are unaffected. If results are printed to the terminal
too, or lines are typed in it, the progress line is hidden meanwhile.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from regard.core.errors import RegardError

_DELAY = 1.0
"""Seconds of work before progress is shown."""


class Progress:
    """`with Progress("translating") as progress`, and `with progress.working()` around each part of the work.

    `total` counts the texts, if that can be known; it is called once, when there is something to show. `unit` names
    what is counted, if not lines; "" if nothing is counted.
    """

    def __init__(self, doing: str, total: Callable[[], int | None] = lambda: None, *, unit: str = "lines") -> None:
        self._doing, self._count_texts, self._unit = doing, total, unit
        self._enabled = sys.stderr.isatty()
        self._stays = not sys.stdout.isatty() and not (sys.stdin and sys.stdin.isatty())
        self._lock = threading.RLock()
        self._timer: threading.Timer | None = None
        self._bar: Any = None
        self._total: int | None = None
        self._start: float | None = None
        self._texts = self._tokens = 0

    @property
    def on_progress(self) -> Callable[[int, int], None] | None:
        """The callback for verbs; None if nothing will be shown."""
        return self._advance if self._enabled else None

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self._hide()

    @contextlib.contextmanager
    def working(self) -> Iterator[None]:
        """The slow part of the work goes in this block; its results are printed after it."""
        if self._enabled and self._timer is None:
            self._start = self._start or time.monotonic()
            self._timer = threading.Timer(_DELAY, self._show)
            self._timer.daemon = True
            self._timer.start()
        try:
            yield
        finally:
            if not self._stays:
                self._hide()

    def _advance(self, texts: int, tokens: int) -> None:
        with self._lock:
            self._texts += texts
            self._tokens += tokens
            self._update()

    def _show(self) -> None:
        """Runs in the timer's thread."""
        from rich.console import Console
        from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar
        from rich.table import Column

        if self._total is None:
            with contextlib.suppress(OSError, RegardError):
                self._total = self._count_texts()
        whole = Column(no_wrap=True)
        columns: list[Any] = [SpinnerColumn(table_column=whole), TextColumn("{task.description}")]
        if self._total:
            columns.append(BarColumn(16, table_column=whole))
        columns += [TextColumn("{task.fields[count]}"), TimeElapsedColumn(table_column=whole)]
        if self._total:
            columns.append(TimeRemainingColumn(table_column=whole))
        # Standard output is a file, or nothing is printed meanwhile; notes on standard error go above the line.
        bar = Bar(*columns, console=Console(file=sys.stderr), transient=True, redirect_stdout=False)
        with self._lock:
            if self._timer is None or self._bar is not None:  # the work has ended, or continues with a new timer
                return
            self._bar = bar
            bar.add_task(self._doing, total=self._total, count="")
            bar.tasks[0].start_time = self._start
            self._update()
            bar.start()

    def _hide(self) -> None:
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            if self._bar is not None:
                self._bar.stop()
                self._bar = None

    def _update(self) -> None:
        if self._bar is not None:
            of = f"/{self._total:,}" if self._total else ""
            tokens = f", {self._tokens:,} tokens" if self._tokens else ""
            count = f"{self._texts:,}{of} {self._unit}{tokens}" if self._unit else ""
            self._bar.update(self._bar.tasks[0].id, completed=self._texts, count=count)
