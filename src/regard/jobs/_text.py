"""What jobs on text share: files in a recipe, and a vocabulary that is learnt once or comes with a model."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pydantic import Field

from regard.core.config import Config
from regard.data.text import Tokenizer, make_tokenizer
from regard.folder import ModelFolder
from regard.recipe import filled_in

Files = str | tuple[str, ...]


def paths(files: Files | None) -> tuple[Path, ...]:
    """One file or several, with variables filled in."""
    return tuple(map(filled_in, (files,) if isinstance(files, str) else files or ()))


class TextTokenizer(Config):
    kind: str = "bpe"
    vocab_size: int = Field(8000, gt=4)
    lowercase: bool = False
    split_digits: bool = Field(False, description="for bpe: every digit is a token of its own")


def vocabulary(
    wanted: TextTokenizer, folder: Path, texts: Iterable[str], start: ModelFolder | None, **options: str
) -> Tokenizer:
    """That of the model to start from; else what the run made before, or makes now of the texts."""
    if start is not None and start.source_tokenizer is not None:
        return start.source_tokenizer
    place = folder / "tokenizer.json"
    if not place.exists():
        asked = wanted.model_dump(include={"vocab_size", "lowercase"})
        if wanted.split_digits:
            asked["split_digits"] = True
        make_tokenizer(wanted.kind, texts, **asked, **options).save(place)
    return Tokenizer.load(place)
