"""Counts of how often words occur near each other, as a sorted sparse table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.models._word_loops import END, FIRST_WORD

Array = NDArray[Any]
Counted = tuple[Array, Array]
"""Keys (row · V + column, sorted) and counts."""
_PARTS = 8
_FAR = 1024  # more than any distance


@dataclass(frozen=True)
class CoOccurrence:
    """Entry n: `counts[n]` of word `columns[n]` near word `rows[n]`."""

    rows: Array
    columns: Array
    counts: Array


def count_pairs(passages: Iterable[Array], vocab_size: int, window: int) -> CoOccurrence:
    """Count pairs at distance d ≤ `window` as 1/d, on both sides."""
    parts: list[Counted] = []
    for tokens in passages:
        parts.append(_counted(tokens.astype(np.int64), vocab_size, window))
        if len(parts) == _PARTS:
            parts = [_merged(parts)]
    keys, counts = _merged(parts) if parts else (np.empty(0, np.int64), np.empty(0))
    rows, columns = np.divmod(keys, vocab_size)
    # Both sides: X + Xᵀ. A pair of a word with itself is thus counted twice, once from each side.
    both = np.concatenate([keys, columns * vocab_size + rows])
    keys, counts = _summed(both, np.concatenate([counts, counts]))
    rows, columns = np.divmod(keys, vocab_size)
    return CoOccurrence(rows.astype(np.int32), columns.astype(np.int32), counts.astype(np.float32))


def _counted(tokens: Array, vocab_size: int, window: int) -> Counted:
    """The pairs of a passage, each with the left word first; special tokens are left out."""
    documents = np.cumsum(tokens == END)
    words = tokens >= FIRST_WORD
    tokens, documents = tokens[words], documents[words]
    keys = []
    for distance in range(1, min(window, len(tokens) - 1) + 1):
        together = documents[:-distance] == documents[distance:]
        pairs = (tokens[:-distance] * vocab_size + tokens[distance:])[together]
        keys.append(pairs * _FAR + distance)
    if not keys:
        return np.empty(0, np.int64), np.empty(0)
    # The distance is part of the key: sorting values is several times faster than sorting indices.
    joined = np.sort(np.concatenate(keys))
    return _runs(joined // _FAR, 1 / (joined % _FAR))


def _merged(parts: list[Counted]) -> Counted:
    return _summed(np.concatenate([keys for keys, _ in parts]), np.concatenate([values for _, values in parts]))


def _summed(keys: Array, values: Array) -> Counted:
    order = np.argsort(keys, kind="stable")
    return _runs(keys[order], values[order])


def _runs(keys: Array, values: Array) -> Counted:
    """Sum the values of equal keys; the keys are sorted."""
    if not len(keys):
        return keys, values
    first = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    return keys[first], np.add.reduceat(values, first)
