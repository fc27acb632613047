"""Batches refuse tensors that do not belong together; padding keeps every token and marks what is real."""

from __future__ import annotations

import pickle
import time
from dataclasses import FrozenInstanceError

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.core.batch import Batch, pad
from regard.core.errors import ShapeError, UnknownName

SEQUENCES = st.lists(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=6), max_size=6)


def test_a_batch_gives_its_tensors_by_name() -> None:
    ids = torch.arange(6).reshape(2, 3)
    batch = Batch({"ids": ids, "labels": torch.zeros(2)}, rows=(7, 3))
    assert batch["ids"] is ids
    assert batch.size == 2
    assert batch.rows == (7, 3)
    assert "labels" in batch
    assert "mask" not in batch


def test_an_unknown_name_is_an_error_with_a_near_match() -> None:
    with pytest.raises(UnknownName, match=r"label.*Did you mean 'labels'"):
        Batch({"labels": torch.zeros(2)})["label"]


def test_tensors_of_differing_batch_sizes_are_refused() -> None:
    with pytest.raises(ShapeError, match=r"ids 2, labels 3.*dimension 0"):
        Batch({"ids": torch.zeros(2, 4), "labels": torch.zeros(3)})


def test_a_tensor_without_a_batch_dimension_is_refused() -> None:
    with pytest.raises(ShapeError, match="loss no dimensions"):
        Batch({"loss": torch.tensor(1.0)})


def test_rows_are_as_many_as_examples() -> None:
    with pytest.raises(ShapeError, match="ids 2, rows 1"):
        Batch({"ids": torch.zeros(2)}, rows=(1,))


@pytest.mark.parametrize(("tensors", "rows"), [({}, ()), ({"ids": torch.zeros(0, 3)}, ())])
def test_a_batch_may_be_empty(tensors: dict[str, torch.Tensor], rows: tuple[int, ...]) -> None:
    assert Batch(tensors, rows).size == 0


def test_a_batch_cannot_change_with_the_mapping_it_was_made_from() -> None:
    tensors = {"ids": torch.zeros(2)}
    batch = Batch(tensors)
    tensors["labels"] = torch.zeros(3)
    assert "labels" not in batch
    with pytest.raises(FrozenInstanceError):
        batch.rows = (1, 2)  # type: ignore[misc]


def test_moving_keeps_names_and_rows() -> None:
    moved = Batch({"ids": torch.zeros(2, 3), "mask": torch.ones(2, 3)}, rows=(4, 5)).to("meta")
    assert {name: tensor.device.type for name, tensor in moved.tensors.items()} == {"ids": "meta", "mask": "meta"}
    assert moved.rows == (4, 5)


def test_a_batch_travels_between_processes() -> None:
    batch = Batch({"ids": torch.arange(2)}, rows=(0, 1))
    copy = pickle.loads(pickle.dumps(batch))
    assert torch.equal(copy["ids"], batch["ids"])
    assert copy.rows == batch.rows


def test_padding_goes_to_the_right_or_to_the_left() -> None:
    ids, mask = pad([[5, 6, 7], [], [8]], value=9)
    assert ids.tolist() == [[5, 6, 7], [9, 9, 9], [8, 9, 9]]
    assert mask.tolist() == [[True, True, True], [False] * 3, [True, False, False]]
    ids, mask = pad([[5, 6, 7], [], [8, 4]], value=9, left=True)
    assert ids.tolist() == [[5, 6, 7], [9, 9, 9], [9, 8, 4]]
    assert mask.tolist() == [[True, True, True], [False] * 3, [False, True, True]]


@pytest.mark.parametrize(("sequences", "shape"), [([], (0, 0)), ([[]], (1, 0)), ([[], []], (2, 0))])
def test_padding_nothing_gives_empty_tensors(sequences: list[list[int]], shape: tuple[int, int]) -> None:
    ids, mask = pad(sequences, value=0)
    assert ids.shape == mask.shape == shape
    assert ids.dtype == torch.int64
    assert mask.dtype == torch.bool


@given(SEQUENCES, st.integers(-3, 3), st.booleans())
def test_padding_keeps_every_token_in_order(sequences: list[list[int]], value: int, left: bool) -> None:
    ids, mask = pad(sequences, value=value, left=left)
    assert [row[real].tolist() for row, real in zip(ids, mask, strict=True)] == sequences
    assert bool((ids[~mask] == value).all())
    assert ids.shape == (len(sequences), max(map(len, sequences), default=0))
    # The real tokens are one block that touches the left edge, or the right one.
    edge = mask.flip(1) if left else mask
    assert bool((edge[:, 1:] <= edge[:, :-1]).all())


def test_padding_is_quick() -> None:
    sequences = [list(range(1 + row % 40)) for row in range(4096)]
    start = time.perf_counter()
    pad(sequences, value=0)
    assert time.perf_counter() - start < 0.5  # some 5 ms; a loop over tokens takes seconds
