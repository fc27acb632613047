"""BPE-dropout (Provilkov, Emelianenko and Voita 2020): in training, a word is cut differently each time it is read.

A token is built from characters by merges. Here it is built again, and at each step every possible merge is left out
with probability `rate`. With 0 the token comes out whole; with 1 it stays characters. The model thereby learns how its
tokens are spelt, which helps most where text is scarce. Validation and translation use the ordinary tokens.

Where we differ: the paper cuts words, we cut the tokens that a word has become. No piece then crosses the border of two
tokens. All draws come from the dice of the row, so an epoch can be made again.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from regard.core.errors import ConfigError
from regard.data.chance import Dice
from regard.data.text import Tokenizer


class MergeDropout:
    """`cut(ids, dice)` returns the ids of the same text in other tokens."""

    def __init__(self, tokenizer: Tokenizer, rate: float) -> None:
        model = tokenizer.as_data().get("model", {})
        if model.get("type") != "BPE":
            raise ConfigError(
                "merge_dropout needs tokens that are built by merges",
                got=f"a tokenizer of the kind {model.get('type')}",
                remedy="Set data.tokenizer.kind to bpe, or merge_dropout to 0.",
            )
        self._rate, self._ids = rate, dict[str, int](model["vocab"])
        self._pieces = {number: piece for piece, number in self._ids.items()}
        pairs = (pair.split(" ") if isinstance(pair, str) else pair for pair in model["merges"])
        self._ranks = {(left, right): rank for rank, (left, right) in enumerate(pairs)}
        self._merges = {number: self._count(piece) for number, piece in self._pieces.items()}

    def cut(self, ids: Sequence[int], dice: Dice) -> list[int]:
        """The same text in other tokens; special and unknown tokens stay."""
        result: list[int] = []
        for number, share in zip(ids, dice.shares(len(ids)).tolist(), strict=True):
            # Most tokens lose no merge; that needs one draw.
            whole = share < (1 - self._rate) ** self._merges.get(number, 0)
            result += [number] if whole else self._cut(number, dice)
        return result

    def _cut(self, number: int, dice: Dice) -> list[int]:
        """The pieces of a token that loses at least one of its merges."""
        while True:
            parts, lost = self._built(list(self._pieces[number]), dice)
            if lost:
                return [self._ids[part] for part in parts]

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
