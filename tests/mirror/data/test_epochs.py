"""Epochs of any subclass: counted, begun anywhere, planned once, and refused where they are not."""

import numpy as np
import pytest
import torch

from regard.core.batch import Batch
from regard.core.errors import UsageError
from regard.data.chance import Dice, Ints
from regard.data.epochs import Epochs


class Numbers(Epochs):
    """Ten numbers in batches of three."""

    def __init__(self, seed: int = 1, shuffle: bool = True) -> None:
        super().__init__(seed=seed, shuffle=shuffle)
        self.planned: list[int] = []

    def plan(self, number: int) -> list[Ints]:
        self.planned.append(number)
        order = Dice(self.seed, number).order(10) if self.shuffle else np.arange(10)
        return [order[at : at + 3] for at in range(0, 10, 3)]

    def batch(self, rows: Ints, number: int) -> Batch:
        return Batch({"epoch": torch.full((len(rows),), number)}, tuple(rows.tolist()))


def test_batches_come_in_the_order_of_the_plan() -> None:
    batches = list(Numbers(shuffle=False).epoch(4))
    assert [batch.rows for batch in batches] == [(0, 1, 2), (3, 4, 5), (6, 7, 8), (9,)]
    assert all((batch["epoch"] == 4).all() for batch in batches)


@pytest.mark.parametrize("start", range(5))
def test_an_epoch_goes_on_from_any_batch(start: int) -> None:
    whole = [batch.rows for batch in Numbers().epoch(2)]
    assert [batch.rows for batch in Numbers().epoch(2, start)] == whole[start:]


def test_the_latest_plan_is_kept() -> None:
    numbers = Numbers()
    assert numbers.batches_in_epoch(3) == len(list(numbers.epoch(3))) == 4
    assert numbers.planned == [3]
    numbers.epoch(4)
    numbers.epoch(3)
    assert numbers.planned == [3, 4, 3]


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_a_seed_out_of_range_is_refused(seed: int) -> None:
    with pytest.raises(UsageError, match=r"the seed is out of range: got -?\d+, expected 0 to 2\^64 - 1"):
        Numbers(seed)


@pytest.mark.parametrize("number", [-1, 2**64])
def test_a_number_that_no_epoch_has_is_refused(number: int) -> None:
    for ask in (Numbers().epoch, Numbers().batches_in_epoch):
        with pytest.raises(UsageError, match="no such epoch"):
            ask(number)


@pytest.mark.parametrize("start", [-1, 5])
def test_a_batch_that_an_epoch_lacks_is_refused_at_once(start: int) -> None:
    with pytest.raises(UsageError, match=f"epoch 2 has no batch {start}.*0 to 4"):
        Numbers().epoch(2, start)
