"""Random numbers that are the same on every machine and version: raw Philox output, which numpy guarantees.

A draw depends on the seed, the epoch and, if given, the row, never on earlier draws. So a resumed run draws what the
uninterrupted run would have drawn.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


class Dice:
    """The random numbers of an epoch, or of one row in it; rows and epochs never share numbers."""

    def __init__(self, seed: int, epoch: int, row: int = -1) -> None:
        # The counter's first word advances with each draw; the second word is the row.
        counter = np.array([0, row + 1, 0, 0], dtype=np.uint64)
        self._raw = np.random.Philox(key=np.array([seed, epoch], dtype=np.uint64), counter=counter)

    def order(self, count: int) -> Ints:
        """A random permutation of `count` items."""
        return np.argsort(self._raw.random_raw(count), kind="stable")

    def share(self) -> float:
        """A number from 0 to 1."""
        return float(self._raw.random_raw()) / 2**64

    def shares(self, count: int) -> NDArray[np.float64]:
        return self._raw.random_raw(count).astype(np.float64) / 2**64

    def below(self, limit: int, count: int) -> Ints:
        """Whole numbers from 0 to limit − 1."""
        return (self._raw.random_raw(count) % np.uint64(limit)).astype(np.int64)
