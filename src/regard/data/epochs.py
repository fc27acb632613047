"""Batches by epoch, in an order that depends only on the seed and the epoch's number.

So a run that stopped inside an epoch resumes with `epoch(number, start=k)`: the plan is made again, and batch k is the
same. A subclass defines which rows each batch of an epoch holds (`plan`) and makes the batch of given rows (`batch`).
Only the latest plan is kept.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from typing import Protocol

from regard.core.batch import Batch
from regard.core.errors import UsageError
from regard.data.chance import Ints


class Plan(Protocol):
    """The rows of each batch of an epoch, by batch number: a list, or an object that computes them when needed."""

    def __len__(self) -> int: ...

    def __getitem__(self, number: int, /) -> Ints: ...


class Epochs(ABC):
    """The batches of any epoch, starting at any batch."""

    def __init__(self, *, seed: int, shuffle: bool) -> None:
        if not 0 <= seed < 2**64:
            raise UsageError("the seed is out of range", got=seed, expected="0 to 2^64 - 1")
        self.seed, self.shuffle = seed, shuffle
        self._latest: tuple[int, Plan] | None = None

    @abstractmethod
    def plan(self, number: int) -> Plan:
        """The rows of each batch of an epoch, in the order of the batches."""

    @abstractmethod
    def batch(self, rows: Ints, number: int) -> Batch:
        """The batch of these rows in an epoch."""

    def batches_in_epoch(self, number: int) -> int:
        """The number of batches; it may differ slightly between epochs."""
        return len(self._latest_plan(number))

    def epoch(self, number: int, start: int = 0, *, rank: int = 0, world: int = 1) -> Iterator[Batch]:
        """Yield the batches of an epoch from batch `start`; each of `world` processes gets its share of every batch."""
        plan = self._latest_plan(number)
        if not 0 <= start <= len(plan):
            raise UsageError(f"epoch {number} has no batch {start}", expected=f"0 to {len(plan)}")
        return (self._share(plan[k], number, rank, world) for k in range(start, len(plan)))

    def _share(self, rows: Ints, number: int, rank: int, world: int) -> Batch:
        """Every `world`-th row, so that the shares have similar lengths; an idle batch if no row is left."""
        share = rows[rank::world]
        return self.batch(share, number) if len(share) else replace(self.batch(rows[:1], number), idle=True)

    def _latest_plan(self, number: int) -> Plan:
        if not 0 <= number < 2**64:
            raise UsageError("no such epoch", got=number, expected="0, 1, 2, …")
        if self._latest is None or self._latest[0] != number:
            self._latest = (number, self.plan(number))
        return self._latest[1]
