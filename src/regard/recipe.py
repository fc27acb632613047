"""A recipe: data, model and training as one YAML file.

A recipe is data, not code. `$REGARD_DATA` and other variables in its paths are filled in. What it leaves out has
defaults; what it misspells is refused.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from regard.core import config as configs
from regard.core.config import Config
from regard.core.errors import ConfigError, DataError
from regard.data.parallel import ParallelText
from regard.decoding import Search
from regard.training.config import TrainingConfig


class PairFiles(Config):
    """Two files of the same number of lines, or one file of tab-separated columns."""

    source: str | None = None
    target: str | None = None
    tsv: str | None = None
    columns: tuple[int, int] = (0, 1)

    def paths(self) -> list[Path]:
        """The files, with variables filled in."""
        return [filled_in(text) for text in (self.source, self.target, self.tsv) if text is not None]

    def open(self) -> ParallelText:
        if self.tsv is not None and self.source is None and self.target is None:
            return ParallelText.tsv(filled_in(self.tsv), source=self.columns[0], target=self.columns[1])
        if self.tsv is None and self.source is not None and self.target is not None:
            return ParallelText(filled_in(self.source), filled_in(self.target))
        raise ConfigError("data files are given as source and target, or as tsv", expected="one of the two ways")


class TokenizerConfig(Config):
    kind: str = "bpe"
    vocab_size: int = Field(8000, gt=4)
    joint: bool = Field(True, description="one vocabulary for both sides")
    lowercase: bool = False
    split_digits: bool = Field(False, description="for bpe: every digit is a token of its own")


class DataConfig(Config):
    train: PairFiles
    validation: PairFiles | None = None
    tokenizer: TokenizerConfig = TokenizerConfig()
    max_tokens: int = Field(256, gt=0, description="longer pairs are left out of training")


class ModelConfig(Config):
    name: str = "transformer"
    size: str | None = None
    options: dict[str, Any] = Field(default_factory=dict)


class Recipe(Config):
    task: Literal["translation"] = "translation"
    data: DataConfig
    model: ModelConfig = ModelConfig()
    training: TrainingConfig
    search: Search = Search()


def read(path: str | Path, changes: Mapping[str, str] | None = None) -> Recipe:
    """The recipe in a file, with changes such as {"training.lr": "1e-3"} on top."""
    return Recipe.parse(configs.override(configs.read(path), changes or {}), str(path))


def filled_in(text: str) -> Path:
    path = os.path.expandvars(os.path.expanduser(text))
    if "$" in path:
        raise DataError(f"{text} names a variable that is not set", remedy="Set it: export REGARD_DATA=/path/to/data")
    return Path(path)


def differences(before: Recipe, now: Recipe) -> dict[str, str]:
    """Dotted names of what differs, and how."""

    def flat(data: Any, name: str = "") -> dict[str, Any]:
        if isinstance(data, dict):
            return {key: value for part, inner in data.items() for key, value in flat(inner, f"{name}.{part}").items()}
        return {name.lstrip("."): data}

    one, other = flat(before.model_dump()), flat(now.model_dump())
    names = sorted(name for name in {*one, *other} if one.get(name) != other.get(name))
    return {name: f"{name} {one.get(name)} → {other.get(name)}" for name in names}
