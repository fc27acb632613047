"""word2vec's text format: a line of sizes, then a line for each word."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.store.stored_model import StoredModel
from regard.store.word_files import load_file, recognises_file, save_file


def recognises(path: Path, config: Mapping[str, Any] | None) -> bool:
    return recognises_file(path, config, "word2vec")


def load(path: Path, config: Mapping[str, Any] | None) -> StoredModel:
    return load_file(path, "word2vec")


def save(path: Path, stored: StoredModel) -> None:
    save_file(path, stored, "word2vec")
