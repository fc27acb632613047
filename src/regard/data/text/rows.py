"""One or two texts as rows for BERT (Devlin et al. 2019, fig. 2): [CLS] a [SEP] or [CLS] a [SEP] b [SEP].

Segment 0 is the first text with its special tokens, segment 1 the second. If two texts are too long together, the
longer one is cut first; once both have the same length, both are cut, as in `transformers`.

Models that read from left to right have no such special tokens and no segments: they use `plain_rows`.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.core.batch import pad
from regard.core.errors import UsageError
from regard.data.text.spelling import SpellingTokenizer
from regard.data.text.tokenizer import Tokenizer

Row = tuple[list[int], list[int]]


def bert_rows(
    tokenizer: Tokenizer, texts: Sequence[str], others: Sequence[str] | None = None, max_len: int = 512
) -> tuple[Tensor, Tensor, Tensor]:
    """`input_ids`, `attention_mask` (True at real tokens) and `token_type_ids`, each [B,T]; T is the longest length."""
    return stacked(tokenizer, rows(tokenizer, texts, others, max_len))


def rows(tokenizer: Tokenizer, texts: Sequence[str], others: Sequence[str] | None, max_len: int) -> list[Row]:
    """The ids of each row and their segments, without padding."""
    return [join(tokenizer, *pair, max_len) for pair in _encoded(tokenizer, texts, others)]


def plain_rows(
    tokenizer: Tokenizer,
    texts: Sequence[str],
    others: Sequence[str] | None,
    max_len: int,
    *,
    begin: int | None = None,
) -> list[Row]:
    """The ids of each text or pair of texts, after the token `begin` if it is given; without segments.

    An empty text becomes one padding token, so that the model has an input.
    """
    before, made = [] if begin is None else [begin], list[Row]()
    for first, second in _encoded(tokenizer, texts, others):
        first_length, second_length = kept(len(first), len(second or ()), max_len - len(before))
        ids = [*before, *first[:first_length], *(second or ())[:second_length]]
        made.append((ids or [tokenizer.filler], []))
    return made


def _encoded(
    tokenizer: Tokenizer, texts: Sequence[str], others: Sequence[str] | None
) -> list[tuple[list[int], list[int] | None]]:
    firsts = tokenizer.encode_batch(texts)
    if others is None:
        return [(first, None) for first in firsts]
    if len(others) != len(texts):
        got = f"{len(texts)} first texts, {len(others)} second texts"
        raise UsageError("pairs need as many first as second texts", got=got, remedy="Give two lists of equal length.")
    return list(zip(firsts, tokenizer.encode_batch(others), strict=True))


def join(tokenizer: Tokenizer, first: Sequence[int], second: Sequence[int] | None, max_len: int) -> Row:
    """One row of the tokens of one or two texts, cut to `max_len` with its special tokens."""
    n_special = 2 if second is None else 3
    if max_len < n_special:
        expected = f"{n_special} or more, for the special tokens alone"
        raise UsageError("max_len is too small", got=max_len, expected=expected)
    first_length, second_length = kept(len(first), 0 if second is None else len(second), max_len - n_special)
    ids = [tokenizer.cls, *first[:first_length], tokenizer.sep]
    segments = [0] * len(ids)
    if second is not None:
        ids += [*second[:second_length], tokenizer.sep]
        segments += [1] * (second_length + 1)
    return ids, segments


def kept(first: int, second: int, room: int) -> tuple[int, int]:
    """The lengths to keep of two texts; the longer one is cut first."""
    short, long = sorted((first, second))
    if short + long > room:
        long = max(short, room - short)
        if short + long > room:
            short = room // 2
            long = short + room % 2
    return (long, short) if first > second else (short, long)


def named(tokenizer: Tokenizer, made: Sequence[Row]) -> dict[str, Tensor]:
    """Rows as tensors with the names that models expect; without segments there is no `token_type_ids`.

    A tokenizer that spells its words adds their `characters` [B,T,50]."""
    input_ids, attention_mask, token_type_ids = stacked(tokenizer, made)
    tensors = {"input_ids": input_ids, "attention_mask": attention_mask}
    if isinstance(tokenizer, SpellingTokenizer):
        tensors["characters"] = tokenizer.characters(input_ids)
    return {**tensors, "token_type_ids": token_type_ids} if any(segments for _, segments in made) else tensors


def stacked(tokenizer: Tokenizer, made: Sequence[Row]) -> tuple[Tensor, Tensor, Tensor]:
    """Rows as tensors, padded to the longest."""
    input_ids, attention_mask = pad([ids for ids, _ in made], value=tokenizer.filler)
    token_type_ids, _ = pad([segments for _, segments in made], value=0)
    return input_ids, attention_mask, token_type_ids.to(torch.int64)
