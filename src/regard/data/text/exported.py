"""Tokenizers made here as other libraries need them: they append the end token by themselves, and there is one for both
sides of a translation.

The file of a tokenizer (`tokenizer.json`) is data: a vocabulary, and rules that know tokens by their text, not by their
number. So tokens can be added to it, or one renamed, without any other change to how text is cut.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

import tokenizers

from regard.core.errors import UsageError
from regard.data.text.tokenizer import Tokenizer

_UNUSED = "<unused>"
# With these a token is never looked for in text unless it is a whole word, or a merge makes it.
_MERGEABLE = ("BPE", "WordLevel")


@dataclass(frozen=True)
class OneVocabulary:
    """A tokenizer for both sides, and for each of its tokens the token that it was on either side before.

    None: the target side lacks it. What the source side lacks was unknown there, and still is.
    """

    tokenizer: Tokenizer
    source: list[int]
    target: list[int | None]


def one_vocabulary(source: Tokenizer, target: Tokenizer) -> OneVocabulary:
    """Both tokenizers as one, which cuts text as the source's does: its tokens, then those that only the target has.

    The source's rules never make a token of the target's alone, but for a character or a word that was unknown.
    """
    if source is target:
        same = list(range(source.vocab_size))
        return OneVocabulary(source, same, list(same))
    data, theirs = source.as_data(), target.as_data()
    kinds = {data["model"]["type"], theirs["model"]["type"]}
    if len(kinds) > 1 or not kinds <= {*_MERGEABLE} or data["decoder"] != theirs["decoder"]:
        raise UsageError(
            "two vocabularies of this kind cannot be written as one, and the other library's models read one",
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
    """One more token at the end, called as the padding was; that is kept in its place, but nothing uses it."""
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
    """The same, which fills up rows with the token that begins a text."""
    return Tokenizer(_made(tokenizer.as_data()), replace(tokenizer.specials, pad=tokenizer.bos))


def _made(data: dict[str, Any]) -> tokenizers.Tokenizer:
    return tokenizers.Tokenizer.from_str(json.dumps(data, ensure_ascii=False))
