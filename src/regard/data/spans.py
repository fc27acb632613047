"""Questions and their contexts as rows [CLS] question [SEP] context [SEP] (Devlin et al. 2019, §4.2).

A context longer than a row is read in overlapping windows, so that an answer cut by one window is whole in another. The
answer is a first and a last token. If a window does not hold the whole answer, or there is none, both are the row's
first token, [CLS]. If several answers are marked, the first is the target; training sets mark only one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.core.errors import UsageError
from regard.data.chance import Ints
from regard.data.squad import Question
from regard.data.text import Tokenizer
from regard.data.text.rows import Row, stacked
from regard.data.text.tokenizer import Offsets

LONGEST_QUESTION = 64
_CHUNK = 512


@dataclass(frozen=True)
class Window:
    """A row, its question, the index where its context begins, and the characters of each context token."""

    question: int
    row: Row
    first: int
    offsets: Offsets
    start: int = 0
    end: int = 0


class SpanRows:
    """`input_ids`, `attention_mask`, `token_type_ids` [B,T], and `starts` and `ends` [B]: token indices in the row."""

    def __init__(self, tokenizer: Tokenizer, questions: Sequence[Question], *, max_len: int, overlap: int) -> None:
        self._tokenizer = tokenizer
        self.windows = list(windows(tokenizer, questions, max_len=max_len, overlap=overlap))
        self.lengths: Ints = np.array([len(window.row[0]) for window in self.windows], dtype=np.int64)

    def __len__(self) -> int:
        return len(self.windows)

    def tensors(self, rows: Sequence[int]) -> dict[str, Tensor]:
        chosen = [self.windows[row] for row in rows]
        input_ids, attention_mask, token_type_ids = stacked(self._tokenizer, [window.row for window in chosen])
        return {
            "input_ids": input_ids,
            "attention_mask": attention_mask,
            "token_type_ids": token_type_ids,
            "starts": torch.tensor([window.start for window in chosen]),
            "ends": torch.tensor([window.end for window in chosen]),
        }


def windows(tokenizer: Tokenizer, questions: Sequence[Question], *, max_len: int, overlap: int) -> Iterator[Window]:
    """Yield the windows of each question in turn; neighbouring windows share `overlap` context tokens.

    For a long question they share fewer: a window begins at least a quarter of its room after the one before.
    """
    if max_len < LONGEST_QUESTION // 2 or not 0 <= overlap < max_len:
        expected = f"max_len {LONGEST_QUESTION // 2} or more, and an overlap below it"
        raise UsageError("these windows cannot be made", got=f"max_len {max_len}, overlap {overlap}", expected=expected)
    for begin in range(0, len(questions), _CHUNK):
        chunk = questions[begin : begin + _CHUNK]
        asked = tokenizer.encode_batch([question.text for question in chunk])
        # Many questions share a paragraph.
        contexts = list(dict.fromkeys(question.context for question in chunk))
        encoded = zip(tokenizer.encode_batch(contexts), tokenizer.offsets_batch(contexts), strict=True)
        read = dict(zip(contexts, encoded, strict=True))
        for place, (question, ids) in enumerate(zip(chunk, asked, strict=True), begin):
            head = ids[: min(LONGEST_QUESTION, max_len // 2)]
            yield from _windows(tokenizer, place, question, head, *read[question.context], max_len, overlap)


def _windows(
    tokenizer: Tokenizer,
    place: int,
    question: Question,
    head: list[int],
    ids: list[int],
    offsets: Offsets,
    max_len: int,
    overlap: int,
) -> Iterator[Window]:
    room, first = max_len - len(head) - 3, len(head) + 2
    step = max(room - overlap, -(-room // 4))
    answer = _tokens_of(question, offsets)
    for begin in range(0, max(len(ids), 1), step):
        end = min(begin + room, len(ids))
        row = [tokenizer.cls, *head, tokenizer.sep, *ids[begin:end], tokenizer.sep]
        segments = [0] * first + [1] * (len(row) - first)
        whole = answer is not None and begin <= answer[0] and answer[1] < end
        span = (answer[0] - begin + first, answer[1] - begin + first) if answer is not None and whole else (0, 0)
        yield Window(place, (row, segments), first, offsets[begin:end], *span)
        if end == len(ids):
            break


def _tokens_of(question: Question, offsets: Offsets) -> tuple[int, int] | None:
    """The first and the last token of the answer."""
    if not question.answers:
        return None
    text, begin = question.answers[0]
    if question.context[begin : begin + len(text)] != text:
        begin = question.context.find(text)  # some data sets count bytes, or count in another way
    end = begin + len(text)
    inside = [n for n, (left, right) in enumerate(offsets) if left < end and right > begin and right > left]
    return (inside[0], inside[-1]) if inside and begin >= 0 else None
