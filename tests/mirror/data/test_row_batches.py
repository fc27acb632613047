"""Batches of rows: every row once, within the budget, in an order that seed and epoch alone decide."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from regard.core.errors import UsageError
from regard.data.chance import Dice
from regard.data.row_batches import RowBatches
from regard.data.tables import Example
from regard.data.text import make_tokenizer
from regard.data.text_rows import TextRows, TwinRows


class Counted:
    def __init__(self, lengths: list[int]) -> None:
        self.lengths = np.array(lengths, dtype=np.int64)

    def tensors(self, rows: Sequence[int]) -> dict[str, Tensor]:
        return {"length": torch.tensor(self.lengths[list(rows)])}


@given(
    lengths=st.lists(st.integers(0, 60), min_size=1, max_size=200),
    budget=st.integers(1, 300),
    most=st.none() | st.integers(1, 9),
    shuffle=st.booleans(),
)
def test_every_row_once_and_within_the_budget(lengths: list[int], budget: int, most: int | None, shuffle: bool) -> None:
    data = RowBatches(Counted(lengths), tokens_per_batch=budget, seed=3, max_rows=most, shuffle=shuffle)
    batches = list(data.epoch(2))
    assert len(batches) == data.batches_in_epoch(2)
    assert sorted(row for batch in batches for row in batch.rows) == list(range(len(lengths)))
    for batch in batches:
        assert batch.size == 1 or batch.size * int(batch["length"].max()) <= budget
        assert most is None or batch.size <= most


def test_an_epoch_goes_on_where_it_stopped_and_epochs_differ() -> None:
    lengths = np.random.default_rng(0).integers(3, 40, 500).tolist()

    def rows(epoch: int, start: int = 0, seed: int = 1) -> list[tuple[int, ...]]:
        data = RowBatches(Counted(lengths), tokens_per_batch=200, seed=seed)
        return [batch.rows for batch in data.epoch(epoch, start)]

    assert rows(0, 7) == rows(0)[7:]
    assert rows(0) == rows(0)
    assert rows(0) != rows(1)
    assert rows(0) != rows(0, seed=2)
    with pytest.raises(UsageError, match="has no batch"):
        rows(0, 10_000)


def test_rows_of_equal_length_keep_the_order_that_was_drawn() -> None:
    """Sorting that is not stable orders them by the processor that it runs on."""
    lengths = (np.random.default_rng(0).integers(0, 4, 1000) + 3).tolist()
    data = RowBatches(Counted(lengths), tokens_per_batch=200, seed=7)
    place = {row: at for at, row in enumerate(Dice(7, 1).order(1000).tolist())}
    for batch in data.epoch(1):
        assert batch.rows == tuple(sorted(batch.rows, key=lambda row: (lengths[row], place[row])))


def test_little_padding() -> None:
    lengths = np.random.default_rng(0).geometric(0.07, 20_000).clip(3, 128).tolist()
    data = RowBatches(Counted(lengths), tokens_per_batch=1024, seed=1)
    held = sum(batch.size * int(batch["length"].max()) for batch in data.epoch(0))
    assert held < 1.12 * sum(lengths)


EXAMPLES = [Example("the cat", "a dog ran"), Example("the", "the cat and the dog"), Example("a b c d", "cat")]


def test_rows_of_one_and_of_two_texts() -> None:
    lines = [text for example in EXAMPLES for text in (example.text, example.other or "")] * 3
    tokenizer = make_tokenizer("wordpiece", lines, vocab_size=200, marks="bert")
    labels = torch.tensor([4, 5, 6])
    both = TextRows(tokenizer, EXAMPLES, labels, max_len=32)
    tensors = both.tensors([2, 0])
    assert tensors["labels"].tolist() == [6, 4]
    assert both.lengths[[2, 0]].tolist() == tensors["attention_mask"].sum(1).tolist()
    assert tensors["token_type_ids"][0].tolist()[:7] == [0] * 6 + [1]
    twins = TwinRows(tokenizer, EXAMPLES, labels, max_len=32)
    tensors = twins.tensors([1])
    assert tensors["input_ids"].shape == (1, 3)
    assert tensors["other_input_ids"].shape == (1, 7)
    assert twins.lengths[1] == 14
    assert TextRows(tokenizer, EXAMPLES, max_len=6).lengths.max() == 6
