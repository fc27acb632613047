"""Which tokens may come next so that the brackets become a tree over exactly the words of the sentence.

A constituent may open while words are left, and at most `_CHAIN` constituents may open before the next word. The next
word of the sentence, as its own token or as the token for all other words, belongs to the innermost open constituent.
A constituent closes with its own bracket once it has a part; the outermost constituent closes only after the last word.
Whatever word the model expects, it says that a word comes next: the allowed token gets the probability of all words.
A constituent also needs room to open: the words that are left, the closing brackets and the end token must fit the
limit, and at most `_DEEPEST` constituents are open at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.core.errors import DataError
from regard.data.trees import LEAF, words_of

_CHAIN = 8
_DEEPEST = 100  # those of treebanks are less than 40 deep


@dataclass(frozen=True)
class _State:
    open: tuple[int, ...] = ()
    """The labels of the open constituents, by number, outermost first."""
    filled: tuple[bool, ...] = ()
    """Whether each open constituent has a part."""
    words: int = 0
    chain: int = 0
    """Constituents that have opened since the last word."""
    done: bool = False


class Brackets:
    """The tokens of a vocabulary: brackets, words, and the token that stands for any other word."""

    def __init__(self, pieces: Sequence[str], eos: int) -> None:
        opens = {piece[1:]: number for number, piece in enumerate(pieces) if piece.startswith("(")}
        closes = {piece[1:]: number for number, piece in enumerate(pieces) if piece.startswith(")")}
        labels = sorted(set(opens) & set(closes))
        if not labels or LEAF not in pieces:
            raise DataError("this vocabulary has no brackets", expected=f"tokens such as (NP, )NP and {LEAF}")
        self.size, self.eos, self.leaf = len(pieces), eos, pieces.index(LEAF)
        self.opens = [opens[label] for label in labels]
        self.closes = [closes[label] for label in labels]
        self.number = {token: n for n, token in enumerate(self.opens)}
        words = set(words_of(pieces))
        self._words = {piece: n for n, piece in enumerate(pieces) if piece in words}
        self.leaves = torch.tensor([self.leaf, *self._words.values()])

    def leaf_of(self, word: str) -> int:
        """The token with which the model writes this word."""
        return self._words.get(word, self.leaf)


class TreeGrammar:
    """For the words of one sentence and an output of at most `limit` tokens, the end token included."""

    def __init__(self, brackets: Brackets, words: Sequence[str], limit: int) -> None:
        least = len(words) + 3
        if not words or limit < least:
            raise DataError(
                "there is no room for a tree",
                got=f"{len(words)} words, {limit} tokens",
                expected=f"{least} tokens or more",
            )
        self._brackets, self._limit = brackets, limit
        self._leaves = [brackets.leaf_of(word) for word in words]
        self.same = brackets.leaves if len(brackets.leaves) > 1 else None
        """Tokens that all say "the next word": which word it is, the sentence says."""
        self._known: dict[tuple[int, ...], _State] = {(): _State()}

    def __call__(self, tokens: Sequence[int]) -> Tensor:
        """A mask [V] of the tokens that may follow these tokens."""
        kind, state = self._brackets, self._state(tuple(tokens))
        allowed = torch.zeros(kind.size, dtype=torch.bool)
        if state.done:
            allowed[kind.eos] = True
            return allowed
        left, depth = len(self._leaves) - state.words, len(state.open)
        if left and depth:
            allowed[self._leaves[state.words]] = True
        if depth and state.filled[-1] and (depth > 1 or not left):
            allowed[kind.closes[state.open[-1]]] = True
        # An opening bracket is followed by the remaining words, all closing brackets and the end token.
        may_open = left and state.chain < _CHAIN and depth < _DEEPEST
        if may_open and len(tokens) + 1 + left + depth + 1 + 1 <= self._limit:
            allowed[kind.opens] = True
        return allowed

    def _state(self, tokens: tuple[int, ...]) -> _State:
        if tokens not in self._known:
            self._known[tokens] = self._after(self._state(tokens[:-1]), tokens[-1])
        return self._known[tokens]

    def _after(self, state: _State, token: int) -> _State:
        kind = self._brackets
        if token in kind.number:
            return _State((*state.open, kind.number[token]), (*state.filled, False), state.words, state.chain + 1)
        if state.words < len(self._leaves) and token == self._leaves[state.words]:
            return _State(state.open, (*state.filled[:-1], True), state.words + 1, 0)
        outer = state.filled[:-1]
        filled = (*outer[:-1], True) if outer else ()
        return _State(state.open[:-1], filled, state.words, state.chain, done=not filled)
