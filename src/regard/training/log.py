"""What a run says: a progress bar for people, JSON lines and TensorBoard events for programs.

Lines are stamped with their update. A resumed run first drops what was logged after its checkpoint, so that no update
is logged twice. (The first mean loss after resuming is over the updates since.)
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


class Log:
    """`log.jsonl` and `tensorboard/` in the run's folder, and a bar on the terminal (lines where there is none)."""

    def __init__(self, folder: Path, *, total: int | None, step: int = 0, quiet: bool = False) -> None:
        self.console = Console(file=sys.stderr, quiet=quiet, highlight=False)
        self._path = folder / "log.jsonl"
        self._drop_lines_after(step)
        self._file = self._path.open("a", encoding="utf-8")
        self._events: Any = None
        self._folder, self._step = folder / "tensorboard", step
        self._last_line = time.monotonic()
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed}/{task.total}" if total else "{task.completed}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
            console=self.console,
            disable=not self.console.is_terminal,
            transient=True,
        )
        self._task = self._bar.add_task("training", total=total, completed=step, note="")
        self._bar.start()

    def advance(self, step: int) -> None:
        self._bar.update(self._task, completed=step)

    def write(self, step: int, **facts: float | int | str) -> None:
        """One JSON line, its numbers as TensorBoard scalars, and the gist beside the bar."""
        self._file.write(json.dumps({"step": step, **facts}) + "\n")
        self._file.flush()
        for name, value in facts.items():
            if isinstance(value, (int, float)):
                self._scalars().add_scalar(name, value, step)
        gist = "  ".join(f"{name} {_formatted(value)}" for name, value in facts.items() if isinstance(value, float))
        self._bar.update(self._task, note=gist)
        validated = any(name.startswith("validation") for name in facts)
        if validated or (not self.console.is_terminal and time.monotonic() - self._last_line > 10):
            self.say(f"step {step}  {gist}")

    def say(self, text: str) -> None:
        self._last_line = time.monotonic()
        self.console.print(text, markup=False, soft_wrap=True)

    def close(self) -> None:
        self._bar.stop()
        self._file.close()
        if self._events is not None:
            self._events.close()

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


class Silent:
    """Says nothing: the log of a process that is not the first of several."""

    def __init__(self, folder: Path, *, total: int | None, step: int = 0, quiet: bool = False) -> None:
        pass

    def advance(self, step: int) -> None:
        pass

    def write(self, step: int, **facts: float | int | str) -> None:
        pass

    def say(self, text: str) -> None:
        pass

    def close(self) -> None:
        pass


def _formatted(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
