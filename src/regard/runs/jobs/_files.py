"""One file or several in a recipe."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from regard.core.config import Config
from regard.core.paths import expand_path
from regard.data.running_text import TextColumn
from regard.training.config import TrainingConfig

Files = str | tuple[str, ...]


class TextTable(Config):
    """A table (.tsv, .csv, .jsonl, compressed or not) with texts in one of its columns."""

    file: str
    text: str | int = Field(0, description="the column of the texts, by name or by number from 0")
    header: bool | None = None


Texts = str | TextTable | tuple[str | TextTable, ...]


def paths(files: Texts | None) -> tuple[Path, ...]:
    """The paths of one file or several, with variables expanded."""
    return tuple(expand_path(file.file if isinstance(file, TextTable) else file) for file in _several(files))


def sources(files: Texts | None) -> tuple[Path | TextColumn, ...]:
    """What running text is read from."""
    return tuple(
        TextColumn(path, file.text, file.header) if isinstance(file, TextTable) else path
        for path, file in zip(paths(files), _several(files), strict=True)
    )


def rows_per_batch(training: TrainingConfig, length: int) -> int:
    """The number of examples of this many tokens that make a batch."""
    return training.rows_per_batch or max(1, training.tokens_per_batch // length)


def _several(files: Texts | None) -> tuple[str | TextTable, ...]:
    return files if isinstance(files, tuple) else () if files is None else (files,)
