"""Splits rows of tokens [B,T] into N sentences of at most W words, and joins them again."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Sentences:
    """N sentences of B documents; the longest has W words, the longest document S sentences.

    Tokens are numbered over all rows [B·T], sentences over all documents.
    """

    tokens_NW: Int[Tensor, "N W"]
    """The number of each word's token; arbitrary past a sentence's end."""
    real_NW: Bool[Tensor, "N W"]
    places_M: Int[Tensor, " M"]
    """The number of each real token; `words_M` is its index among the N·W words."""
    words_M: Int[Tensor, " M"]
    rows_N: Int[Tensor, " N"]
    """The document of each sentence."""
    sentences_BS: Int[Tensor, "B S"]
    real_BS: Bool[Tensor, "B S"]

    @classmethod
    def split(cls, real_BT: Bool[Tensor, "B T"], segments_BT: Int[Tensor, "B T"], max_words: int) -> Sentences:
        """Split rows into sentences. A sentence is a run of real tokens of one segment; a run of more than `max_words`
        tokens is split."""
        places_M = real_BT.flatten().nonzero()[:, 0]
        rows_M = places_M // max(real_BT.shape[1], 1)
        segments_M = segments_BT.flatten()[places_M]
        numbers_M = torch.arange(len(places_M), device=places_M.device)
        begins_M = _changes(rows_M) | _changes(segments_M)
        begins_M |= (numbers_M - numbers_M[begins_M][begins_M.cumsum(0) - 1]) % max_words == 0
        sentence_M, first_N = begins_M.cumsum(0) - 1, begins_M.nonzero()[:, 0]
        lengths_N, rows_N = torch.bincount(sentence_M, minlength=len(first_N)), rows_M[first_N]
        real_NW, word_NW = _ragged(first_N, lengths_N)
        words_M = sentence_M * max(real_NW.shape[1], 1) + numbers_M - first_N[sentence_M]
        counts_B = torch.bincount(rows_N, minlength=len(real_BT))
        real_BS, sentences_BS = _ragged(counts_B.cumsum(0) - counts_B, counts_B)
        tokens_NW = places_M[word_NW.clamp(max=max(len(places_M) - 1, 0))] if len(places_M) else word_NW
        return cls(tokens_NW, real_NW, places_M, words_M, rows_N, sentences_BS, real_BS)

    def by_sentence(self, x_BTD: Float[Tensor, "B T D"]) -> Float[Tensor, "N W D"]:
        """The words of each sentence; values past its end are arbitrary."""
        chosen = x_BTD.flatten(0, 1).index_select(0, self.tokens_NW.flatten())
        return chosen.unflatten(0, tuple(self.tokens_NW.shape))

    def by_token(self, x_NWD: Float[Tensor, "N W D"], like_BT: Tensor) -> Float[Tensor, "B T D"]:
        """The words in rows of tokens again, with zeros at padding."""
        empty = x_NWD.new_zeros(like_BT.numel(), x_NWD.shape[-1])
        filled = empty.index_copy(0, self.places_M, x_NWD.flatten(0, 1).index_select(0, self.words_M))
        return filled.unflatten(0, tuple(like_BT.shape))

    def by_document(self, x_ND: Float[Tensor, "N D"]) -> Float[Tensor, "B S D"]:
        """The sentences of each document; zeros past its end."""
        if not len(x_ND):
            return x_ND.new_zeros(*self.sentences_BS.shape, x_ND.shape[-1])
        chosen = x_ND.index_select(0, self.sentences_BS.clamp(max=len(x_ND) - 1).flatten())
        return chosen.unflatten(0, tuple(self.sentences_BS.shape)) * self.real_BS.unsqueeze(-1)


def _changes(values_M: Tensor) -> Tensor:
    """True where a value differs from the value before it, and for the first value."""
    return torch.cat([torch.ones_like(values_M[:1], dtype=torch.bool), values_M[1:] != values_M[:-1]])


def _ragged(first_N: Tensor, lengths_N: Tensor) -> tuple[Tensor, Tensor]:
    """A mask [N,W] that is True within each row's length, and consecutive numbers [N,W] from each row's `first`."""
    longest = int(lengths_N.max()) if len(lengths_N) else 0
    steps_W = torch.arange(longest, device=first_N.device)
    return steps_W < lengths_N[:, None], first_N[:, None] + steps_W
