"""Word vectors as the first embeddings of any model, matched by word.

The vectors are a model of word vectors (ours, or a file of word2vec or GloVe). A token that is a whole word gets the
vector of that word, or of the word in lower case; other tokens keep what they were initialised with.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from regard.core.articles import with_article
from regard.core.errors import ConfigError, DataError, UnknownName
from regard.core.paths import expand_path
from regard.data.text import Tokenizer
from regard.layers.characters import CharacterWords
from regard.layers.embedding import TokenEmbedding
from regard.store import load_model

_TARGET = "target"


def embedding_paths(wanted: str | Mapping[str, str] | None) -> list[Path]:
    """The paths that a recipe's `model.embeddings` names."""
    named = {} if wanted is None else {"": wanted} if isinstance(wanted, str) else wanted
    return [expand_path(text) for text in named.values()]


def use_embeddings(
    model: nn.Module, source: Tokenizer | None, target: Tokenizer | None, wanted: str | Mapping[str, str]
) -> list[str]:
    """Fill the model's embedding tables; return a line for each that says how many tokens have a vector.

    One path is for the table of the inputs. A mapping names tables: {source_embedding: PATH, target_embedding: PATH}.
    """
    tables = _tables_of_tokens(model)
    if not tables or source is None:
        raise ConfigError("this model has no table of word embeddings", remedy="Leave model.embeddings out.")
    paths = {next(iter(tables)): wanted} if isinstance(wanted, str) else dict(wanted)
    lines = []
    for name, text in paths.items():
        if name not in tables:
            raise UnknownName("table in model.embeddings", name, tables)
        tokenizer = target if name.startswith(_TARGET) and target is not None else source
        lines.append(_fill(tables[name], name, tokenizer, expand_path(text)))
    return lines


def _tables_of_tokens(model: nn.Module) -> dict[str, TokenEmbedding]:
    """The tables with a row for each token; a table of characters is none."""
    spelt = {part.embedding for part in model.modules() if isinstance(part, CharacterWords)}
    tables = {name: part for name, part in model.named_modules() if isinstance(part, TokenEmbedding)}
    return {name: table for name, table in tables.items() if table not in spelt}


def _fill(table: TokenEmbedding, name: str, tokenizer: Tokenizer, path: Path) -> str:
    words, vectors = word_vectors(path)
    if vectors.shape[1] != table.weight.shape[1]:
        raise ConfigError(
            f"the vectors of {path} do not fit {name}",
            got=f"{vectors.shape[1]} numbers a word",
            expected=f"{table.weight.shape[1]}",
            remedy="Set the model's width (d_model or d_embedding in model.options) to that of the vectors.",
        )
    places = {word: number for number, word in reversed(list(enumerate(words)))}
    own = tokenizer.whole_words()
    matched = {token: places.get(word, places.get(word.lower())) for token, word in own.items()}
    pairs = [(token, place) for token, place in matched.items() if place is not None and token < len(table.weight)]
    if not pairs:
        raise DataError(f"no token of the vocabulary has a vector in {path}", remedy="Check the tokenizer's kind.")
    tokens, chosen = (torch.tensor(side) for side in zip(*pairs, strict=True))
    with torch.no_grad():
        table.weight[tokens] = vectors[chosen].to(table.weight.dtype)
    return f"{name}: {len(pairs):,} of {len(table.weight):,} tokens have a vector in {path}"


def word_vectors(path: Path) -> tuple[list[str], Tensor]:
    """The words of a model of word vectors and their vectors [N,D]; special tokens are left out."""
    if not path.exists():
        raise DataError(f"model.embeddings: {path} does not exist", remedy="Give a file or a folder of word vectors.")
    stored = load_model(path)
    tokenizer = stored.source_tokenizer
    if stored.task != "word_vectors" or tokenizer is None:
        raise DataError(
            f"{path} holds no word vectors", got=f"{with_article(stored.name)} for {stored.task.replace('_', ' ')}"
        )
    own = tokenizer.whole_words()
    table: Tensor = cast(Any, stored.model).vectors()
    return list(own.values()), table[torch.tensor(list(own), dtype=torch.long)]
