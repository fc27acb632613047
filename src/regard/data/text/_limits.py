"""Limits for tokenizer files, checked before the `tokenizers` library acts on them.

Forty normalizer steps that each double the text make it 2⁴⁰ times as long; the library allocates the memory, and the
process dies. So we compute from the file how much the steps can multiply the length of a text. A unigram model's
vocabulary becomes a trie of about 330 bytes per node, so its nodes are counted.
"""

from __future__ import annotations

import base64
import binascii
import functools
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any

from regard.core.errors import DataError

_MOST_GROWTH = 4096
_UNCHECKED_GROWTH = 64
"""Up to this factor any text is encoded: normalizers in use can in theory multiply its length by about 36."""
_LONGEST_TEXT = 1 << 27
_MOST_STEPS = 64
_MOST_NODES = 3_000_000
_REMEDY = "Do not use this file."
# The most characters that one character can become. A run of normal forms counts once: it does not expand twice.
_FORMS = {"NFC": 3, "NFD": 4, "NFKC": 18, "NFKD": 18, "Lowercase": 3, "StripAccents": 1, "Strip": 1, "Nmt": 1}
_OTHERS = {"ByteLevel": 4, "BertNormalizer": 12}


def checked_growth(text: str, name: str) -> int:
    """The largest factor by which the normalizer of a tokenizer.json can lengthen a text; refuses files whose factor is
    far too large."""
    try:
        content = json.loads(text, object_pairs_hook=functools.partial(_unique, name))
    except (ValueError, RecursionError) as error:
        if isinstance(error, DataError):
            raise
        return 1  # the library will report this error; it reads no more of the file than Python does
    if not isinstance(content, Mapping):
        return 1
    growth = 1
    for part, key in (("normalizer", "normalizers"), ("decoder", "decoders")):
        most = _growth(list(_flat(content.get(part), key)), f"{part} of {name}")
        growth = most if part == "normalizer" else growth
    added = content.get("added_tokens")
    # The library normalizes these while it loads the file.
    tokens = [entry.get("content") for entry in added if isinstance(entry, Mapping)] if isinstance(added, list) else []
    for token in tokens:
        if isinstance(token, str):
            check_length(token, growth, f"an added token of {name}")
    model = content.get("model")
    if isinstance(model, Mapping) and model.get("type", "Unigram") == "Unigram" and "merges" not in model:
        listed = model.get("vocab")
        entries = listed if isinstance(listed, list) else []
        check_trie((entry[0] for entry in entries if isinstance(entry, list) and entry), name)
    return growth


def check_length(text: str, growth: int, what: str) -> None:
    """Refuse a text whose normalized form could be far too long."""
    if growth > _UNCHECKED_GROWTH and len(text) * growth > _LONGEST_TEXT:
        raise DataError(
            f"{what} is too long for this tokenizer",
            got=f"{len(text)} characters, which its normalizer may multiply by {growth}",
            expected=f"at most {_LONGEST_TEXT // growth}",
            remedy="Split it.",
        )


def check_trie(pieces: Iterable[Any], name: str) -> None:
    """Refuse a unigram vocabulary whose trie would take gigabytes."""
    encoded = [piece.encode("utf-8", "replace") for piece in pieces if isinstance(piece, str)]
    nodes = sum(map(len, encoded))
    if nodes > _MOST_NODES:
        shared = sum(len(os.path.commonprefix(pair)) for pair in pairwise(sorted(encoded)))  # noqa: RUF071 (no paths)
        nodes -= shared
    if nodes > _MOST_NODES:
        raise DataError(
            f"{name} has a vocabulary that takes too much memory",
            got=f"{nodes:,} trie nodes",
            expected=f"at most {_MOST_NODES:,}",
            remedy=_REMEDY,
        )


def _unique(name: str, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse duplicate keys: the library might use the value that was not checked here."""
    made = dict(pairs)
    if len(made) != len(pairs):
        raise DataError(f"{name} has a duplicate key", remedy=_REMEDY)
    return made


def _flat(step: Any, key: str, depth: int = 0) -> Iterator[Mapping[str, Any]]:
    """Yield the steps of a sequence, including those of nested sequences."""
    if not isinstance(step, Mapping):
        return
    inner = step.get(key)
    if step.get("type") == "Sequence" and isinstance(inner, list):
        if depth > _MOST_STEPS:
            raise DataError("a tokenizer's steps are nested too deeply", remedy=_REMEDY)
        for each in inner:
            yield from _flat(each, key, depth + 1)
    else:
        yield step


def _growth(steps: list[Mapping[str, Any]], what: str) -> int:
    growth, form = 1.0, 1
    for step in steps:
        kind = step.get("type")
        if isinstance(kind, str) and kind in _FORMS:
            growth, form = growth / form * max(form, _FORMS[kind]), max(form, _FORMS[kind])
            continue
        growth, form = growth * _step_growth(step, kind), 1
        if growth > _MOST_GROWTH:
            break
    if growth > _MOST_GROWTH or len(steps) > _MOST_STEPS:
        raise DataError(
            f"the {what} can make a text far too long",
            got=f"{len(steps)} steps that multiply its length by more than {_MOST_GROWTH}"
            if growth > _MOST_GROWTH
            else f"{len(steps)} steps",
            expected=f"at most {_MOST_STEPS} steps and {_MOST_GROWTH} times the length",
            remedy=_REMEDY,
        )
    return int(growth)


def _step_growth(step: Mapping[str, Any], kind: Any) -> float:
    if kind == "Replace":
        content, pattern = step.get("content"), step.get("pattern")
        added = len(content) if isinstance(content, str) else 1
        literal = pattern.get("String") if isinstance(pattern, Mapping) else None
        if isinstance(literal, str) and literal:
            return max(1.0, added / len(literal))
        return 1.0 + added  # an expression may match between any two characters
    if kind in ("Prepend", "Append"):
        added = step.get("prepend", step.get("append"))
        return 1.0 + (len(added) if isinstance(added, str) else 1)
    if kind == "Precompiled":
        return float(longest_entry(_decoded(step.get("precompiled_charsmap"))))
    return float(_OTHERS.get(kind, 1)) if isinstance(kind, str) else 1.0


def longest_entry(table: bytes) -> int:
    """The number of bytes of the longest replacement in sentencepiece's character table, which holds the size of a
    trie, the trie, and the replacements, ended by zeros."""
    texts = table[4 + int.from_bytes(table[:4], "little") :].split(b"\0")
    return max(1, *map(len, texts))


def _decoded(table: Any) -> bytes:
    try:
        return base64.b64decode(table) if isinstance(table, str) else b""
    except (binascii.Error, ValueError):
        return b""
