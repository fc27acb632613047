"""Chance that is the same on every machine and version: only raw Philox numbers, which numpy promises to keep.

A draw follows from the seed, the epoch and, where there is one, the row: never from what was drawn before it. So a run
that stopped goes on with what it would have drawn.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


class Dice:
    """The draws of an epoch, or of one row in it; rows never share a number with each other or with the epoch."""

    def __init__(self, seed: int, epoch: int, row: int = -1) -> None:
        # The counter's first word runs on with the draws; the second tells the rows apart.
        counter = np.array([0, row + 1, 0, 0], dtype=np.uint64)
        self._raw = np.random.Philox(key=np.array([seed, epoch], dtype=np.uint64), counter=counter)

    def order(self, count: int) -> Ints:
        """A random order of so many things."""
        return np.argsort(self._raw.random_raw(count), kind="stable")

    def share(self) -> float:
        """A number from 0 to 1."""
        return float(self._raw.random_raw()) / 2**64

    def shares(self, count: int) -> NDArray[np.float64]:
        return self._raw.random_raw(count).astype(np.float64) / 2**64

    def below(self, limit: int, count: int) -> Ints:
        """Whole numbers from 0 to limit − 1."""
        return (self._raw.random_raw(count) % np.uint64(limit)).astype(np.int64)
