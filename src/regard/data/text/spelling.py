"""The characters of words, for models that read a word by its spelling (ELMo). Only this module makes them.

A word is 50 numbers, as in Peters et al. 2018: `begin`, the bytes of its UTF-8 (at most 48), `end`, then `filler`.
Bytes are the numbers 1 … 256; the special characters (begin and end of a text, begin and end of a word, filler) follow.
Padding, which is not a word, is all 0. The beginning and the end of a text are words of one special character.

`SpellingTokenizer` is a tokenizer whose unknown words keep their spelling: a word that is not in the vocabulary gets
the next free id after the vocabulary, as long as the tokenizer exists. Such an id is shown as the word itself, and has
characters like any other; no model has an embedding for it, and no file stores it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.data.text.tokenizer import Tokenizer

LONGEST = 50
N_CHARACTERS = 262
_TEXT_BEGINS, _TEXT_ENDS, _BEGIN, _END, _FILLER = (mark + 1 for mark in range(256, 261))
_MOST_MET = 1_000_000


def spelled(word: str) -> NDArray[np.int16]:
    """The numbers of a word [50]."""
    return _framed([byte + 1 for byte in word.encode("utf-8", "replace")[: LONGEST - 2]])


def _framed(inside: Sequence[int]) -> NDArray[np.int16]:
    row = np.full(LONGEST, _FILLER, dtype=np.int16)
    row[: len(inside) + 2] = [_BEGIN, *inside, _END]
    return row


class SpellingTokenizer(Tokenizer):
    """Returns the `characters` of ids, also for words that are not in its vocabulary."""

    def __init__(self, closed: Tokenizer) -> None:
        super().__init__(closed._inner, closed.specials, size=closed.vocab_size, growth=closed._growth)
        self.closed = closed
        """The same tokenizer with a single token for all unknown words."""
        self._met: dict[str, int] = {}
        self._table: NDArray[np.int16] | None = None

    def encode_batch(self, lines: Sequence[str]) -> list[list[int]]:
        encoded, unk = super().encode_batch(lines), self.specials.unk
        if unk is None or not any(unk in row for row in encoded):
            return encoded
        spans = self.offsets_batch(lines)
        return [
            [self._meet(line[slice(*span)]) if token == unk else token for token, span in zip(row, places, strict=True)]
            if unk in row
            else row
            for line, row, places in zip(lines, encoded, spans, strict=True)
        ]

    def tokens(self, ids: Sequence[int]) -> list[str]:
        words = list(self._met)
        labels = zip(super().tokens(ids), ids, strict=True)
        return [label if i < self.vocab_size else words[i - self.vocab_size] for label, i in labels]

    def characters(self, ids: Tensor) -> Tensor:
        """The characters of each id [..., 50]."""
        return torch.from_numpy(self._spellings()[ids.numpy()])

    def _meet(self, word: str) -> int:
        """The id of an unknown word. It is the unknown token if the text spells that token, or after too many words."""
        normalizer = self._inner.normalizer
        spelling = word if normalizer is None else normalizer.normalize_str(word)
        if spelling == self._inner.id_to_token(self.unk) or (len(self._met) >= _MOST_MET and spelling not in self._met):
            return self.unk
        return self._met.setdefault(spelling, self.vocab_size + len(self._met))

    def _known(self, ids: Sequence[int]) -> list[int]:
        most = self.vocab_size + len(self._met)
        return super()._known([self.unk if self.vocab_size <= i < most else i for i in ids])

    def _spellings(self) -> NDArray[np.int16]:
        """A row for each id, including the unknown words so far."""
        if self._table is None:
            self._table = np.stack([spelled(piece) for piece in self.pieces()])
            special = {"pad": np.zeros(LONGEST, dtype=np.int16), "bos": _framed([_TEXT_BEGINS]),
                       "eos": _framed([_TEXT_ENDS])}  # fmt: skip
            for name, row in special.items():
                if (number := getattr(self.specials, name)) is not None:
                    self._table[number] = row
        if new := list(self._met)[len(self._table) - self.vocab_size :]:
            self._table = np.concatenate([self._table, np.stack([spelled(word) for word in new])])
        return self._table
