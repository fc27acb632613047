"""Encoded sentence pairs on disk, in memory-mapped arrays (see `arrays`).

    source, target                  the ids of all sentences one after the other, uint16 if the vocabulary is small
    source_offsets, target_offsets  int64, one more than there are pairs: pair i is ids[offsets[i] : offsets[i + 1]]

Opening a folder checks that the offsets fit the ids.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.core.errors import DataError
from regard.data import arrays
from regard.data.arrays import META, REMEDY, Flat, id_type
from regard.data.chance import Dice

KIND = "regard.pairs"
_SIDES = ("source", "target")
_ID_TYPES = ("<u2", "<i4")
_OFFSET_TYPE = "<i8"
Pair = tuple[Sequence[int], Sequence[int]]
Array = NDArray[np.integer[Any]]
Cut = Callable[[Array, Array, Dice], tuple[Array, Array]]
"""A function of the ids and offsets of all rows; it returns ids and offsets of the same texts in other tokens."""


class TokenPairs:
    """Pairs of token sequences, by number. The arrays are memory-mapped, or any of the same shape and type."""

    def __init__(self, source: Array, source_offsets: Array, target: Array, target_offsets: Array) -> None:
        assert len(source_offsets) == len(target_offsets) > 0
        self._source, self._source_offsets = source, source_offsets
        self._target, self._target_offsets = target, target_offsets
        self.source_lengths: Array = np.diff(source_offsets)
        self.target_lengths: Array = np.diff(target_offsets)

    @classmethod
    def open(cls, folder: str | Path) -> TokenPairs:
        """Open what `writing` wrote. Each file is read once to check its CRC-32."""
        folder = Path(folder)
        files, facts = arrays.opened(folder, KIND)
        if not _declared(files, facts):
            raise DataError(f"{folder / META} is damaged", got="files that do not form pairs", remedy=REMEDY)
        for side in _SIDES:
            if not _fit(files[side], files[f"{side}_offsets"]):
                raise DataError(f"{folder / side}_offsets.bin does not fit {side}.bin", remedy=REMEDY)
        return cls(**files)

    def __len__(self) -> int:
        return len(self.source_lengths)

    def source(self, row: int) -> Array:
        """The source ids of a pair, without special tokens."""
        return _slice(self._source, self._source_offsets, row)

    def target(self, row: int) -> Array:
        """The target ids of a pair, without special tokens."""
        return _slice(self._target, self._target_offsets, row)

    def cut(self, source: Cut, target: Cut, dice: Sequence[Dice]) -> TokenPairs:
        """The same pairs in other tokens, in memory."""
        return TokenPairs(
            *source(self._source, self._source_offsets, dice[0]), *target(self._target, self._target_offsets, dice[1])
        )


@contextmanager
def writing(folder: str | Path, source_size: int, target_size: int) -> Iterator[Callable[[Sequence[Pair]], None]]:
    """A function that takes pairs, chunk by chunk; they replace those in the folder when the block succeeds.

    `source_size` and `target_size` are the sizes of the vocabularies.
    """
    types = {"source": id_type(source_size), "target": id_type(target_size)}
    types |= {f"{side}_offsets": _OFFSET_TYPE for side in _SIDES}
    facts: dict[str, Any] = {}
    with arrays.writing(Path(folder), KIND, types, facts) as files:
        for side in _SIDES:
            files[f"{side}_offsets"].write([0])
        yield lambda pairs: _write(files, pairs)
        facts["pairs"] = files["source_offsets"].items - 1


def _write(files: Mapping[str, Flat], pairs: Sequence[Pair]) -> None:
    for place, side in enumerate(_SIDES):
        ids, offsets = files[side], files[f"{side}_offsets"]
        ends = ids.items + np.cumsum([len(pair[place]) for pair in pairs], dtype=np.int64)
        ids.write(list(chain.from_iterable(pair[place] for pair in pairs)))
        offsets.write(ends)


def _declared(files: Mapping[str, Array], facts: Mapping[str, Any]) -> bool:
    """Whether these are arrays of pairs with the right types and the number of offsets that the facts give."""
    if files.keys() != {*_SIDES, *(f"{side}_offsets" for side in _SIDES)}:
        return False
    types = all(files[side].dtype.str in _ID_TYPES for side in _SIDES)
    offsets = [files[f"{side}_offsets"] for side in _SIDES]
    counts = all(len(array) - 1 == facts.get("pairs") and len(array) > 1 for array in offsets)
    return types and counts and all(array.dtype.str == _OFFSET_TYPE for array in offsets)


def _fit(ids: Array, offsets: Array) -> bool:
    return bool(offsets[0] == 0 and offsets[-1] == len(ids) and (offsets[:-1] <= offsets[1:]).all())


def _slice(ids: Array, offsets: Array, row: int) -> Array:
    if not 0 <= row < len(offsets) - 1:
        raise IndexError(f"no pair {row} among {len(offsets) - 1}")
    return ids[offsets[row] : offsets[row + 1]]
