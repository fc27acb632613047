"""Encoded sentence pairs on disk, in flat files that are mapped, not read, so that memory holds what is used:

    source.bin, target.bin          the ids of all sentences one after the other, uint16 where the vocabulary allows
    source.offsets, target.offsets  int64, one more than there are pairs: pair i is ids[offsets[i] : offsets[i + 1]]
    meta.json                       the number of pairs, and for each file its type, items and CRC-32

All numbers are little-endian. `meta.json` is taken away before the other files are replaced and written after them, so
that a folder never passes for whole when it is not.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.core.errors import DataError
from regard.core.weights import replacing
from regard.data.arrays import Flat, id_type, mapped

_FORMAT = {"format": "regard.token_pairs", "version": 1}
_META = "meta.json"
_SIDES = ("source", "target")
_ID_TYPES = ("<u2", "<i4")
_OFFSET_TYPE = "<i8"
_REMEDY = "Encode the text again."
Pair = tuple[Sequence[int], Sequence[int]]
Array = NDArray[np.integer[Any]]


class TokenPairs:
    """Pairs of token sequences, by number. The arrays are mapped files, or any of the same form."""

    def __init__(self, source: Array, source_offsets: Array, target: Array, target_offsets: Array) -> None:
        assert len(source_offsets) == len(target_offsets) > 0
        self._source, self._source_offsets = source, source_offsets
        self._target, self._target_offsets = target, target_offsets
        self.source_lengths: Array = np.diff(source_offsets)
        self.target_lengths: Array = np.diff(target_offsets)

    @classmethod
    def open(cls, folder: str | Path) -> TokenPairs:
        """What `writing` wrote. Every file is checked against its sum, which reads it once."""
        folder = Path(folder)
        arrays = _arrays(folder, _meta(folder))
        for name in _SIDES:
            ids, offsets = arrays[f"{name}.bin"], arrays[f"{name}.offsets"]
            sound = offsets[0] == 0 and offsets[-1] == len(ids) and bool((offsets[:-1] <= offsets[1:]).all())
            if not sound:
                raise DataError(f"{folder / name}.offsets does not fit {name}.bin", remedy=_REMEDY)
        return cls(*arrays.values())

    def __len__(self) -> int:
        return len(self.source_lengths)

    def source(self, row: int) -> Array:
        """The source ids of a pair, without specials."""
        return _slice(self._source, self._source_offsets, row)

    def target(self, row: int) -> Array:
        """The target ids of a pair, without specials."""
        return _slice(self._target, self._target_offsets, row)


@contextmanager
def writing(folder: str | Path, source_size: int, target_size: int) -> Iterator[Callable[[Sequence[Pair]], None]]:
    """A function that takes pairs, chunk by chunk; they replace those in the folder when the block ends well.

    `source_size` and `target_size` are the sizes of the vocabularies.
    """
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            files = {
                name: Flat(stack.enter_context(replacing(folder / name)), dtype)
                for name, dtype in _types(source_size, target_size).items()
            }
            for side in _SIDES:
                files[f"{side}.offsets"].write([0])
            yield lambda pairs: _write(files, pairs)
            (folder / _META).unlink(missing_ok=True)
        with replacing(folder / _META) as file:
            pairs = files["source.offsets"].items - 1
            meta = {**_FORMAT, "pairs": pairs, "files": {name: flat.meta() for name, flat in files.items()}}
            file.write(json.dumps(meta, indent=2).encode())
    except OSError as error:
        raise DataError(f"{folder} was not written", got=error, remedy="Make room, or write elsewhere.") from error


def _types(source_size: int, target_size: int) -> dict[str, str]:
    """The files in the order of TokenPairs' arguments, and their types."""
    types = {}
    for side, size in zip(_SIDES, (source_size, target_size), strict=True):
        types[f"{side}.bin"] = id_type(size)
        types[f"{side}.offsets"] = _OFFSET_TYPE
    return types


def _write(files: Mapping[str, Flat], pairs: Sequence[Pair]) -> None:
    for place, side in enumerate(_SIDES):
        ids, offsets = files[f"{side}.bin"], files[f"{side}.offsets"]
        ends = ids.items + np.cumsum([len(pair[place]) for pair in pairs], dtype=np.int64)
        ids.write(list(chain.from_iterable(pair[place] for pair in pairs)))
        offsets.write(ends)


def _meta(folder: Path) -> dict[str, Any]:
    """`meta.json`, as far as it can be trusted before the files are seen."""
    try:
        meta = json.loads((folder / _META).read_bytes())
        good = {key: meta[key] for key in _FORMAT} == _FORMAT
        for name in _types(0, 0):
            entry = meta["files"][name]
            good &= entry["dtype"] in (_ID_TYPES if name.endswith(".bin") else (_OFFSET_TYPE,))
            good &= type(entry["items"]) is int and type(entry["crc32"]) is int
        good &= all(meta["files"][f"{side}.offsets"]["items"] == meta["pairs"] + 1 > 1 for side in _SIDES)
    except OSError as error:
        remedy = "Give a folder that was encoded to the end, or encode the text again."
        raise DataError(f"{folder} holds no encoded pairs", got=error.strerror, remedy=remedy) from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataError(f"{folder / _META} is damaged", got=repr(error), remedy=_REMEDY) from error
    if not good:
        raise DataError(f"{folder / _META} is damaged or of another version", expected=_FORMAT, remedy=_REMEDY)
    return dict(meta)


def _arrays(folder: Path, meta: Mapping[str, Any]) -> dict[str, Array]:
    return {name: mapped(folder / name, **meta["files"][name], remedy=_REMEDY) for name in _types(0, 0)}


def _slice(ids: Array, offsets: Array, row: int) -> Array:
    if not 0 <= row < len(offsets) - 1:
        raise IndexError(f"no pair {row} among {len(offsets) - 1}")
    return ids[offsets[row] : offsets[row + 1]]
