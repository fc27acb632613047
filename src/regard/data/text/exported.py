"""Tokenizers made here, changed for other libraries: these append the end token themselves, and use one tokenizer for
both sides of a translation.

A tokenizer's file (`tokenizer.json`) is data: a vocabulary, and rules that refer to tokens by text, not by id. So
tokens can be added or renamed without changing how text is split.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

import tokenizers

from regard.core.errors import UsageError
from regard.data.text.tokenizer import Tokenizer

_UNUSED = "<unused>"
# With these models, a token is not matched inside text unless it is a whole word, or a merge produces it.
_MERGEABLE = ("BPE", "WordLevel")


@dataclass(frozen=True)
class OneVocabulary:
    """A tokenizer for both sides, and the old ids of each of its tokens on either side.

    None: the target side lacks the token. A token that the source side lacks maps to its unknown token, as before.
    """

    tokenizer: Tokenizer
    source: list[int]
    target: list[int | None]


def one_vocabulary(source: Tokenizer, target: Tokenizer) -> OneVocabulary:
    """Join both tokenizers into one that splits text as the source's does: its tokens, then those of the target alone.

    The source's rules never produce tokens of the target alone, except for a character or a word that was unknown.
    """
    if source is target:
        same = list(range(source.vocab_size))
        return OneVocabulary(source, same, list(same))
    data, theirs = source.as_data(), target.as_data()
    kinds = {data["model"]["type"], theirs["model"]["type"]}
    if len(kinds) > 1 or not kinds <= {*_MERGEABLE} or data["decoder"] != theirs["decoder"]:
        raise UsageError(
            "two vocabularies of this kind cannot be joined, and models of the other library have one",
            got=" and ".join(sorted(kinds)),
            expected=f"two of {' or '.join(_MERGEABLE)}",
            remedy="Train with data.tokenizer.joint, or with kind bpe.",
        )
    vocab: dict[str, int] = data["model"]["vocab"]
    before = {"source": dict(vocab), "target": theirs["model"]["vocab"]}
    for text in sorted(before["target"], key=before["target"].__getitem__):
        vocab.setdefault(text, len(vocab))
    texts = sorted(vocab, key=vocab.__getitem__)
    joined = Tokenizer(_made(data), source.specials)
    unknown = source.unk
    return OneVocabulary(
        joined, [before["source"].get(text, unknown) for text in texts], [before["target"].get(text) for text in texts]
    )


def with_last_padding(tokenizer: Tokenizer) -> Tokenizer:
    """Add a padding token at the end, with the name of the old one; the old one keeps its id, but is unused."""
    data, number = tokenizer.as_data(), tokenizer.vocab_size
    entry = next(entry for entry in data["added_tokens"] if entry["id"] == tokenizer.pad)
    text = entry["content"]
    vocab: dict[str, int] = data["model"]["vocab"]
    del vocab[text]
    vocab |= {_UNUSED: tokenizer.pad, text: number}
    data["added_tokens"] += [{**entry, "id": number}]
    entry["content"] = _UNUSED
    return Tokenizer(_made(data), replace(tokenizer.specials, pad=number))


def padded_by_start(tokenizer: Tokenizer) -> Tokenizer:
    """The same tokenizer, with the token that begins a text as padding."""
    return Tokenizer(_made(tokenizer.as_data()), replace(tokenizer.specials, pad=tokenizer.bos))


def _made(data: dict[str, Any]) -> tokenizers.Tokenizer:
    return tokenizers.Tokenizer.from_str(json.dumps(data, ensure_ascii=False))
