"""Tables of labelled texts in a recipe."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from pydantic import Field

from regard.core.config import Config
from regard.core.paths import expand_path
from regard.data.tables import Example, read_examples
from regard.runs.setup import TokenizerConfig, as_usual

WORDPIECE = TokenizerConfig(kind="wordpiece", lowercase=True)
WordPieces = Annotated[TokenizerConfig, as_usual(WORDPIECE)]


class LabelledFile(Config):
    """A table (.tsv, .csv, .jsonl, compressed or not) and its columns, by name or by number from 0."""

    file: str
    text: str | int = 0
    other: str | int | None = None
    label: str | int | None = 1
    header: bool | None = None
    mail: bool = Field(False, description="texts are e-mails: the header, up to the first blank line, is left out")

    def path(self) -> Path:
        return expand_path(self.file)

    def examples(self) -> list[Example]:
        read = read_examples(self.path(), text=self.text, other=self.other, label=self.label, header=self.header)
        return [replace(example, text=_body(example.text)) for example in read] if self.mail else read


def _body(text: str) -> str:
    """An e-mail without its header; one that is only a header stays unchanged."""
    body = text.partition("\n\n")[2]
    return body if body.strip() else text


def all_texts(examples: Sequence[Example]) -> list[str]:
    """All texts, to learn a vocabulary from."""
    return [text for example in examples for text in (example.text, example.other) if text is not None]
