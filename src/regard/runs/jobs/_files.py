"""One file or several in a recipe."""

from __future__ import annotations

from pathlib import Path

from regard.core.paths import expand_path
from regard.training.config import TrainingConfig

Files = str | tuple[str, ...]


def paths(files: Files | None) -> tuple[Path, ...]:
    """The paths of one file or several, with variables expanded."""
    return tuple(map(expand_path, (files,) if isinstance(files, str) else files or ()))


def rows_per_batch(training: TrainingConfig, length: int) -> int:
    """The number of examples of this many tokens that make a batch."""
    return training.rows_per_batch or max(1, training.tokens_per_batch // length)
