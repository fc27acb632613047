"""Which tokens make up a word, by the markers that a tokenizer puts on its pieces.

marker                       tokenizers
"##" inside a word           WordPiece
"▁" or a space before it     sentencepiece, BPE with metaspace; byte-level BPE
an ending, as "</w>"         BPE as in Sennrich et al. (2016)
none                         words and characters: each token is a word

If the marker is a space, punctuation at the ends of a word is split off: "horse." is "horse" and ".". In scripts
without spaces between words, such as Chinese and Thai, each piece is a word.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import tokenizers
from tokenizers import decoders, models

from regard.data.text import _bytes

_SPACE = "▁"
# Thai and Lao, Myanmar, Khmer, kana, Han.
_UNSPACED = (
    (0x0E00, 0x0EFF), (0x1000, 0x109F), (0x1780, 0x17FF), (0x3040, 0x30FF), (0x3400, 0x9FFF), (0xF900, 0xFAFF),
    (0x20000, 0x3FFFF),
)  # fmt: skip


@dataclass(frozen=True)
class WordMarks:
    """The marker of one tokenizer's pieces: at most one of these is set."""

    inside: str = ""
    after: str = ""
    spaces: bool = False
    in_bytes: bool = False

    @classmethod
    def of(cls, inner: tokenizers.Tokenizer) -> WordMarks:
        model, decoder = inner.model, inner.decoder
        if isinstance(model, models.WordPiece):
            return cls(inside=str(model.continuing_subword_prefix))
        if isinstance(decoder, decoders.ByteLevel):
            return cls(spaces=True, in_bytes=True)
        if isinstance(model, models.BPE) and model.end_of_word_suffix:
            return cls(after=str(model.end_of_word_suffix))
        state = json.loads(decoder.__getstate__()) if decoder is not None else None
        return cls(spaces=_SPACE in json.dumps(state, ensure_ascii=False))

    def begun(self, piece: str) -> str | None:
        """The text of a piece that begins a word (or ends it, if pieces mark the ends of words); None for others."""
        if self.inside:
            return None if piece.startswith(self.inside) else piece
        if self.after:
            return piece.removesuffix(self.after) if piece.endswith(self.after) else None
        if not self.spaces:
            return piece
        text = _bytes.text(piece) if self.in_bytes else piece.replace(_SPACE, " ")
        return text[1:] if text.startswith(" ") else None

    def groups(self, pieces: Sequence[str]) -> list[list[int]]:
        """The token indices of each word, in order."""
        if self.inside:
            return _grouped([not piece.startswith(self.inside) for piece in pieces])
        if not self.after and not self.spaces:
            return [[place] for place in range(len(pieces))]
        if self.after:
            starts = [True, *(piece.endswith(self.after) for piece in pieces[:-1])]
            texts = [piece.removesuffix(self.after) for piece in pieces]
        else:
            spelt = [_bytes.text(piece) if self.in_bytes else piece.replace(_SPACE, " ") for piece in pieces]
            texts = [text.strip() for text in spelt]
            starts = [text[:1].isspace() for text in spelt]
        for place, (before, text) in enumerate(pairwise(texts), start=1):
            starts[place] = starts[place] or (bool(before and text) and _apart(before[-1], text[0]))
        return [part for group in _grouped(starts) for part in _without_punctuation(group, texts)]


def _grouped(starts: Sequence[bool]) -> list[list[int]]:
    groups: list[list[int]] = []
    for place, start in enumerate(starts):
        if start or not groups:
            groups.append([])
        groups[-1].append(place)
    return groups


def _without_punctuation(group: list[int], texts: Sequence[str]) -> list[list[int]]:
    """The punctuation before a word, the word, and the punctuation after it; pure punctuation stays whole."""
    words = [n for n, place in enumerate(group) if texts[place] and not _is_punctuation(texts[place])]
    if not words:
        return [group]
    first, last = words[0], words[-1] + 1
    if not any(texts[place] for place in group[:first]):
        first = 0  # a single space belongs to what follows it
    return [part for part in (group[:first], group[first:last], group[last:]) if part]


def _is_punctuation(text: str) -> bool:
    return all(unicodedata.category(sign).startswith("P") for sign in text)


def _apart(before: str, sign: str) -> bool:
    """Whether a piece that begins with `sign`, after a piece that ends with `before`, begins a new word."""
    return (_is_unspaced(before) or _is_unspaced(sign)) and not unicodedata.category(sign).startswith("M")


def _is_unspaced(sign: str) -> bool:
    return any(low <= ord(sign) <= high for low, high in _UNSPACED)
