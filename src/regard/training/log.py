"""The log of a run: a progress bar for people, JSON lines and TensorBoard events for programs.

Each line holds its update. A resumed run first drops the lines after its checkpoint, so that no update is logged twice.
(The first mean loss after resuming covers only the updates since.)
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Column
from rich.text import Text

_LINE_EVERY = 10.0
"""Seconds between lines without a terminal."""


class Log:
    """`log.jsonl` and `tensorboard/` in the run's folder, and a bar on the terminal (or lines, without a terminal)."""

    def __init__(self, folder: Path, *, total: int | None, step: int = 0, quiet: bool = False) -> None:
        self.console = Console(file=sys.stderr, quiet=quiet, highlight=False)
        self._path = folder / "log.jsonl"
        self._drop_lines_after(step)
        self._file = self._path.open("a", encoding="utf-8")
        self._events: Any = None
        self._folder, self._step, self._total = folder / "tensorboard", step, total
        self._gist, self._summed, self._counted = "", 0.0, 0
        self._start = self._last_line = time.monotonic()
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(max(8, min(40, self.console.width // 5)), table_column=_whole()),
            TextColumn("{task.completed}/{task.total}" if total else "{task.completed}"),
            TimeElapsedColumn(table_column=_whole()),
            TimeRemainingColumn(table_column=_whole()),
            _Note(),
            console=self.console,
            disable=not self.console.is_terminal,
            transient=True,
        )
        self._task = self._bar.add_task("training", total=total, completed=step, note="")
        self._bar.start()

    def advance(self, step: int, loss: float | None = None) -> None:
        """Count a finished update, and its loss. Without a terminal, print a line from time to time."""
        if loss is not None:
            self._summed, self._counted = self._summed + loss, self._counted + 1
        if self._total and step > self._total:  # epochs differ in length, so the total is an estimate
            self._total = step
        self._bar.update(self._task, completed=step, total=self._total)
        if not self.console.is_terminal and time.monotonic() - self._last_line > _LINE_EVERY:
            self.say(self._line(step))

    def write(self, step: int, **facts: float | int | str) -> None:
        """Write one JSON line, its numbers as TensorBoard scalars, and a summary beside the bar."""
        self._file.write(json.dumps({"step": step, **facts}) + "\n")
        self._file.flush()
        for name, value in facts.items():
            if isinstance(value, (int, float)):
                self._scalars().add_scalar(name, value, step)
        gist = "  ".join(f"{name} {_formatted(value)}" for name, value in facts.items() if isinstance(value, float))
        self._gist = gist
        self._bar.update(self._task, note=gist)
        validated = any(name.startswith("validation") for name in facts)
        if validated or (not self.console.is_terminal and time.monotonic() - self._last_line > _LINE_EVERY):
            self.say(self._line(step))

    def tell_loss(self, step: int) -> None:
        """Print the mean loss since the last such line, for a run without validation; the files have it anyway."""
        if self._counted:
            self._gist = f"loss {_formatted(self._summed / self._counted)}"
            self.say(self._line(step))
        self._summed, self._counted = 0.0, 0

    def say(self, text: str) -> None:
        self._last_line = time.monotonic()
        self.console.print(text, markup=False, soft_wrap=True)

    def close(self) -> None:
        self._bar.stop()
        self._file.close()
        if self._events is not None:
            self._events.close()

    def _line(self, step: int) -> str:
        """The update, its numbers, and the time left at this process's speed so far."""
        of = f"/{self._total}" if self._total else ""
        parts = [f"step {step}{of}", self._gist]
        if self._total and self._step < step < self._total:
            pace = (time.monotonic() - self._start) / (step - self._step)
            parts.append(f"{duration(pace * (self._total - step))} left")
        return "  ".join(filter(None, parts))

    def _scalars(self) -> Any:
        if self._events is None:
            from torch.utils.tensorboard import SummaryWriter

            self._events = SummaryWriter(str(self._folder), purge_step=self._step + 1)
        return self._events

    def _drop_lines_after(self, step: int) -> None:
        if not self._path.exists():
            return
        kept = []
        for line in self._path.read_text(encoding="utf-8").splitlines():
            try:
                if json.loads(line)["step"] <= step:
                    kept.append(line + "\n")
            except (ValueError, KeyError, TypeError):
                continue  # a line that a crash cut short
        self._path.write_text("".join(kept), encoding="utf-8")


class _Note(ProgressColumn):
    """The numbers, cut off at the terminal's edge: the only column that may be cut."""

    def render(self, task: Task) -> Text:
        return Text(str(task.fields["note"]), no_wrap=True, overflow="ellipsis")


def _whole() -> Column:
    return Column(no_wrap=True)


class Silent:
    """Logs nothing; for all processes but the first."""

    def __init__(self, folder: Path, *, total: int | None, step: int = 0, quiet: bool = False) -> None:
        pass

    def advance(self, step: int, loss: float | None = None) -> None:
        pass

    def write(self, step: int, **facts: float | int | str) -> None:
        pass

    def tell_loss(self, step: int) -> None:
        pass

    def say(self, text: str) -> None:
        pass

    def close(self) -> None:
        pass


def _formatted(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def duration(seconds: float) -> str:
    """45 s, 3 min, 2 h 10 min."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
