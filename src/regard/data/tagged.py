"""Sentences with a tag for each word: from constituency trees, one per line, whose leaves are (TAG word).

A line may begin with a name and a tab, as CRAFT's do. Traces (-NONE-) are left out. Brackets in words are spelt -LRB-
and so on, and stay so. Tags have the names of the Penn Treebank.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from regard.core.batch import pad
from regard.core.errors import DataError
from regard.core.lines import read_lines
from regard.data.chance import Ints
from regard.data.text import Tokenizer
from regard.data.text.rows import Row, named
from regard.data.trees import PENN

_LEAF = re.compile(r"\(([^\s()]+)\s+([^\s()]+)\)")
_TRACE = "-NONE-"
IGNORED = -100
"""The label of tokens that are not asked: special tokens, padding, and the later pieces of a word."""


@dataclass(frozen=True)
class Tagged:
    words: list[str]
    tags: list[str]


def read_tagged(path: Path) -> list[Tagged]:
    """The sentences of a file of trees (plain, .gz or .xz)."""
    sentences = []
    for number, line in enumerate(read_lines(path), start=1):
        tree = line.rpartition("\t")[2].strip()
        if not tree:
            continue
        leaves = [(tag, word) for tag, word in _LEAF.findall(tree) if tag != _TRACE]
        if tree.count("(") != tree.count(")") or not tree.startswith("("):
            got = repr(tree[:60])
            raise DataError(f"line {number} of {path} is not a tree", got=got, expected="(S (NP (NN word)) …)")
        if leaves:
            sentences.append(Tagged([word for _, word in leaves], [PENN.get(tag, tag) for tag, _ in leaves]))
    if not sentences:
        raise DataError(f"{path} holds no tagged sentence", expected="trees such as (S (NP (NN word)) …)")
    return sentences


class TaggedRows:
    """`input_ids`, `attention_mask` and `labels` [B,T]: the number of the tag at the first piece of each word.

    A tag that is not among `tags` has the number len(tags), which no model predicts: it counts as wrong.
    """

    def __init__(
        self, tokenizer: Tokenizer, sentences: Sequence[Tagged], tags: Sequence[str], *, max_len: int, cls: bool
    ) -> None:
        numbers = {tag: number for number, tag in enumerate(tags)}
        self._tokenizer = tokenizer
        self._rows: list[Row] = []
        self._labels: list[list[int]] = []
        for sentence in sentences:
            ids: list[int] = [tokenizer.cls] if cls else []
            labels = [IGNORED] * len(ids)
            pieces = [word or [tokenizer.unk] for word in tokenizer.encode_batch(sentence.words)]
            for word, tag in zip(pieces, sentence.tags, strict=True):
                ids += word
                labels += [numbers.get(tag, len(tags)), *[IGNORED] * (len(word) - 1)]
            room = max_len - cls
            ends = [tokenizer.sep] if cls else []
            self._rows.append(([*ids[:room], *ends], [0] * (min(len(ids), room) + 1) if cls else []))
            self._labels.append([*labels[:room], *[IGNORED] * len(ends)])
        self.lengths: Ints = np.array([len(ids) for ids, _ in self._rows], dtype=np.int64)

    def __len__(self) -> int:
        return len(self._rows)

    def tensors(self, rows: Sequence[int]) -> dict[str, Tensor]:
        labels, real = pad([self._labels[row] for row in rows], value=IGNORED)
        assert labels.shape == real.shape
        return {**named(self._tokenizer, [self._rows[row] for row in rows]), "labels": labels.to(torch.int64)}
