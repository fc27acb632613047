"""Rows of tokens in memory, in BERT's layout: one text, two texts in one row, or two rows that belong together.

Fine-tuning sets are small: a hundred thousand sentences take a few dozen megabytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from regard.data.chance import Ints
from regard.data.tables import Example
from regard.data.text import Tokenizer
from regard.data.text.rows import Row, named, rows

Lay = Callable[[Tokenizer, Sequence[str], Sequence[str] | None, int], list[Row]]


class TextRows:
    """`input_ids`, `attention_mask`, `token_type_ids` [B,T], and `labels` [B] if they are given.

    `lay` makes rows of texts, by default in BERT's layout.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        examples: Sequence[Example],
        labels: Tensor | None = None,
        *,
        max_len: int,
        lay: Lay = rows,
    ) -> None:
        assert labels is None or len(labels) == len(examples)
        pairs = [example.other for example in examples if example.other is not None]
        assert len(pairs) in (0, len(examples)), "examples are single texts or pairs"
        self._tokenizer, self._labels = tokenizer, labels
        self._rows = lay(tokenizer, [example.text for example in examples], pairs or None, max_len)
        self.lengths: Ints = np.array([len(ids) for ids, _ in self._rows], dtype=np.int64)

    def __len__(self) -> int:
        return len(self._rows)

    def tensors(self, rows: Sequence[int]) -> dict[str, Tensor]:
        tensors = named(self._tokenizer, [self._rows[row] for row in rows])
        return tensors if self._labels is None else {**tensors, "labels": self._labels[torch.tensor(rows)]}


class TwinRows:
    """Two texts, each in a row of its own: the second's tensors are called `other_…`."""

    def __init__(
        self, tokenizer: Tokenizer, examples: Sequence[Example], labels: Tensor | None = None, *, max_len: int
    ) -> None:
        alone = [
            [Example(example.text) for example in examples],
            [Example(example.other or "") for example in examples],
        ]
        self._sides = [TextRows(tokenizer, texts, max_len=max_len) for texts in alone]
        self._labels = labels
        # Each side is padded separately; together they hold at most this.
        self.lengths: Ints = 2 * np.maximum(self._sides[0].lengths, self._sides[1].lengths)

    def __len__(self) -> int:
        return len(self.lengths)

    def tensors(self, rows: Sequence[int]) -> dict[str, Tensor]:
        first, second = (side.tensors(rows) for side in self._sides)
        tensors = {**first, **{f"other_{name}": tensor for name, tensor in second.items()}}
        return tensors if self._labels is None else {**tensors, "labels": self._labels[torch.tensor(rows)]}
