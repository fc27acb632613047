"""BPE-dropout (Provilkov, Emelianenko and Voita 2020): in training, a word is cut differently each time it is read.

A token is built from characters by merges. Here it is built again, and at each step every possible merge is left out
with probability `rate`. With 0 the token comes out whole; with 1 it stays characters. The model thereby learns how its
tokens are spelt, which helps most where text is scarce. Validation and translation use the ordinary tokens.

Where we differ: the paper cuts words, we cut the tokens that a word has become. No piece then crosses the border of two
tokens. A token that loses a merge takes one of 32 cuts that were drawn for it once. So a whole epoch can be cut in
advance, in arrays, and its batches are planned with the real lengths of the rows.
"""

from __future__ import annotations

import functools
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.core.errors import ConfigError
from regard.data.chance import Dice, Ints
from regard.data.text import Tokenizer

Array = NDArray[np.integer[Any]]
_VARIANTS = 32
_SEED = 0  # for drawing the cuts of a token; the dice of the epoch choose among them
_ROWS = 20_000  # rows that are cut at a time; this bounds the memory


class MergeDropout:
    """`cut(ids, offsets, dice)` returns the ids and offsets of the same rows in other tokens.

    A row that would get longer than `max_tokens` stays as it is.
    """

    def __init__(self, tokenizer: Tokenizer, rate: float, max_tokens: int) -> None:
        model = tokenizer.as_data().get("model", {})
        if model.get("type") != "BPE":
            raise ConfigError(
                "merge_dropout needs tokens that are built by merges",
                got=f"a tokenizer of the kind {model.get('type')}",
                remedy="Set data.tokenizer.kind to bpe, or merge_dropout to 0.",
            )
        self._rate, self._max_tokens, self._ids = rate, max_tokens, dict[str, int](model["vocab"])
        self._pieces = {number: piece for piece, number in self._ids.items()}
        pairs = (pair.split(" ") if isinstance(pair, str) else pair for pair in model["merges"])
        self._ranks = {(left, right): rank for rank, (left, right) in enumerate(pairs)}
        self._whole = np.ones(tokenizer.vocab_size)  # the probability that a token loses none of its merges
        for number, piece in self._pieces.items():
            self._whole[number] = (1 - rate) ** self._count(piece)
        self._variant = functools.cache(self._drawn)

    def cut(self, ids: Array, offsets: Array, dice: Dice) -> tuple[Array, Array]:
        """Rows ids[offsets[i] : offsets[i + 1]] in other tokens; special and unknown tokens stay."""
        parts, lengths = [], [np.zeros(1, dtype=np.int64)]
        for first in range(0, len(offsets) - 1, _ROWS):
            borders = offsets[first : first + _ROWS + 1]
            some, counts = self._cut(ids[borders[0] : borders[-1]].astype(np.int64), np.diff(borders), dice)
            parts.append(some)
            lengths.append(counts)
        return np.concatenate(parts).astype(ids.dtype), np.cumsum(np.concatenate(lengths))

    def _cut(self, ids: Ints, lengths: Array, dice: Dice) -> tuple[Ints, Ints]:
        """The ids of some rows in other tokens, and the rows' new lengths."""
        rows = np.repeat(np.arange(len(lengths)), lengths)
        whole = dice.shares(len(ids)) < self._whole[ids]
        variants = np.where(whole, 0, 1 + dice.below(_VARIANTS, len(ids)))
        counts = self._expanded(ids, variants)[1]
        too_long = np.bincount(rows, weights=counts, minlength=len(lengths)) > self._max_tokens
        result, counts = self._expanded(ids, np.where(too_long[rows], 0, variants))
        return result, np.bincount(rows, weights=counts, minlength=len(lengths)).astype(np.int64)

    def _expanded(self, ids: Ints, variants: Ints) -> tuple[Ints, Ints]:
        """The pieces of all tokens one after the other, and how many each token has."""
        keys, inverse = np.unique(ids * (_VARIANTS + 1) + variants, return_inverse=True)
        pieces = [self._variant(int(key)) for key in keys]
        lengths = np.array([len(part) for part in pieces], dtype=np.int64)
        starts, counts = (np.cumsum(lengths) - lengths)[inverse], lengths[inverse]
        flat = np.array([piece for part in pieces for piece in part], dtype=np.int64)
        places = np.repeat(starts - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())
        return flat[places], counts

    def _drawn(self, key: int) -> tuple[int, ...]:
        """Cut number 1, 2, … of a token; number 0 is the token itself."""
        token, variant = divmod(key, _VARIANTS + 1)
        return (token,) if variant == 0 else self._losing(token, Dice(_SEED, variant, token))

    def _losing(self, token: int, dice: Dice) -> tuple[int, ...]:
        """The pieces of a token that loses at least one of its merges."""
        while True:
            parts, lost = self._built(list(self._pieces[token]), dice)
            if lost:
                return tuple(self._ids[part] for part in parts)

    def _built(self, parts: list[str], dice: Dice | None) -> tuple[list[str], bool]:
        """Characters merged as far as the dice allow, and whether a merge that was due was left out."""
        lost = False
        while True:
            pairs = enumerate(pairwise(parts))
            possible = sorted((self._ranks[pair], place) for place, pair in pairs if pair in self._ranks)
            if not possible:
                return parts, lost
            shares = [1.0] * len(possible) if dice is None else dice.shares(len(possible))
            kept = [merge for merge, share in zip(possible, shares, strict=True) if share >= self._rate]
            lost = lost or kept[:1] != possible[:1]
            if not kept:
                return parts, lost
            place = kept[0][1]
            parts = [*parts[:place], parts[place] + parts[place + 1], *parts[place + 2 :]]

    def _count(self, piece: str) -> int:
        """How many merges build a token; 0 for a special token, or one whose characters are not tokens."""
        parts = list(piece)
        known = all(part in self._ids for part in parts)
        return len(parts) - 1 if known and self._built(parts, None)[0] == [piece] else 0
