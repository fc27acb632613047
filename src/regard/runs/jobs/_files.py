"""One file or several, as recipes name them."""

from __future__ import annotations

from pathlib import Path

from regard.core.paths import expand_path
from regard.training.config import TrainingConfig

Files = str | tuple[str, ...]


def paths(files: Files | None) -> tuple[Path, ...]:
    """One file or several, with variables filled in."""
    return tuple(map(expand_path, (files,) if isinstance(files, str) else files or ()))


def rows_per_batch(training: TrainingConfig, length: int) -> int:
    """How many examples of that many tokens make a batch."""
    return training.rows_per_batch or max(1, training.tokens_per_batch // length)
