"""Word vectors of other programs as models, and back."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from regard.core import weights
from regard.core.articles import with_article
from regard.core.errors import UsageError
from regard.data.text import Tokenizer
from regard.data.text.kinds.word import known_words
from regard.data.text.vectors import Form, WordVectors, read_vectors, vector_format, write_vectors
from regard.models import config_of, make_model
from regard.store.stored_model import StoredModel


def recognises_file(path: Path, config: Mapping[str, Any] | None, form: Form) -> bool:
    return config is None and path.is_file() and vector_format(path) == form


def load_file(path: Path, name: str) -> StoredModel:
    return as_model(read_vectors(path), name, str(path))


def as_model(read: WordVectors, name: str, where: str) -> StoredModel:
    """A model that has only vectors. If a word occurs several times, its first vector is used."""
    tokenizer = Tokenizer(known_words(read.words), name=where)
    places = {piece: number for number, piece in enumerate(tokenizer.pieces())}
    rows = np.array([places[word] for word in read.words])
    table = np.zeros((tokenizer.vocab_size, read.vectors.shape[1]), np.float32)
    table[rows[::-1]] = read.vectors[::-1]
    config = config_of(name, {"vocab_size": len(table), "d_model": table.shape[1], "trained": False}, where=where)
    model = make_model(name, config, empty=True)
    weights.load_into(model, {"embedding.weight": torch.from_numpy(table)})
    stored = StoredModel("word_vectors", name, config, model.eval(), tokenizer, tokenizer)
    if twice := len(read.words) - len(set(read.words)):
        stored.notes.append(f"{twice} words occur more than once; the first vector of each is used")
    return stored


def save_file(path: Path, stored: StoredModel, form: Form) -> None:
    """Write the vectors that are used; special tokens only where they have a vector."""
    vectors, tokenizer = getattr(stored.model, "vectors", None), stored.source_tokenizer
    if stored.task != "word_vectors" or vectors is None or tokenizer is None:
        got = f"{with_article(stored.name)} for {stored.task.replace('_', ' ')}"
        raise UsageError("only word vectors can be written in this format", got=got)
    table = vectors().numpy()
    special = tokenizer.specials.non_text_ids() | {tokenizer.specials.unk}
    words = tokenizer.pieces()
    numbers = [n for n, word in enumerate(words) if word and (n not in special or table[n].any())]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_vectors(path, [words[n] for n in numbers], table[numbers], form)
