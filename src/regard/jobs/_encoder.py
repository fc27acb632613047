"""What jobs that fine-tune an encoder of text share: where the examples are, the model's size, its vocabulary."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.core.config import Config
from regard.core.errors import ConfigError
from regard.data.tables import Example, read_examples
from regard.data.text import Tokenizer
from regard.folder import ModelFolder
from regard.jobs._job import model_config
from regard.jobs._text import TextTokenizer
from regard.layout import marked
from regard.recipe import Recipe, filled_in

WORDPIECE = TextTokenizer(kind="wordpiece", lowercase=True)


class LabelledFile(Config):
    """A table (.tsv, .csv, packed or not) and its columns, by name or by number from 0 on."""

    file: str
    text: str | int = 0
    other: str | int | None = None
    label: str | int | None = 1
    header: bool | None = None

    def path(self) -> Path:
        return filled_in(self.file)

    def examples(self) -> list[Example]:
        columns = {"text": self.text, "other": self.other, "label": self.label}
        return read_examples(self.path(), **columns, header=self.header)  # type: ignore[arg-type]


def check_tokenizer(start: ModelFolder | None) -> None:
    """A model to start from brings the marks that rows are made with."""
    if start is None:
        return
    if start.source_tokenizer is None:
        raise ConfigError("the model to start from has no tokenizer", remedy="Put its tokenizer files into its folder.")
    if marked(start.name):
        check_marks(start.source_tokenizer)


def check_marks(tokenizer: Tokenizer) -> None:
    for name in ("cls", "sep"):
        tokenizer.specials.need(name)


def encoder_config(
    recipe: Recipe, start: ModelFolder | None, tokenizer: Tokenizer | None, max_len: int, **fixed: Any
) -> Config:
    """The model's configuration, long enough for the rows; before the vocabulary is known, with a stand-in for it."""
    if start is None or tokenizer is not start.source_tokenizer:
        fixed["vocab_size"] = tokenizer.vocab_size if tokenizer is not None else 8
    if start is None and "max_len" not in recipe.model.options:
        fixed["max_len"] = max_len
    config = model_config(recipe, start, **fixed)
    longest = getattr(config, "max_len", None)
    if longest is not None and max_len > longest:
        raise ConfigError(
            "rows are longer than the model allows",
            got=f"data.max_len {max_len}",
            expected=f"at most max_len {longest}",
            remedy="Lower data.max_len, or raise max_len in model.options.",
        )
    return config


def texts(examples: Sequence[Example]) -> list[str]:
    """All of them, to learn a vocabulary from."""
    return [text for one in examples for text in (one.text, one.other) if text is not None]
