"""Copies paths from slot to slot in one call of compiled code (`copies.c`), if it has been compiled."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from regard.core import native

_SOURCE = Path(__file__).with_name("copies.c")


class _Place(ctypes.Structure):
    """See copies.c."""

    _fields_ = [
        ("numbers", ctypes.c_void_p),
        *((name, ctypes.c_int64) for name in ("slot", "heads", "head", "used")),
    ]


def copy_paths(buffers: Sequence[Tensor], from_N: Tensor, to_N: Tensor, length: int) -> bool:
    """Copy the first `length` tokens of slots `from` to slots `to` in all buffers [P,H,C,E]; return True if done.

    Nothing is copied if a slot is in both lists, if a buffer is not on the CPU or not contiguous, or if the loop is not
    compiled.
    """
    library = _library()
    if library is None or any(buffer.device.type != "cpu" or not buffer.is_contiguous() for buffer in buffers):
        return False
    from_N, to_N = from_N.contiguous(), to_N.contiguous()
    if not set(from_N.tolist()).isdisjoint(to_N.tolist()):
        return False
    places = (_Place * len(buffers))()
    for place, buffer in zip(places, buffers, strict=True):
        size = buffer.element_size()
        place.numbers, place.heads = buffer.data_ptr(), buffer.shape[1]
        place.slot, place.head, place.used = (
            n * size for n in (buffer.stride(0), buffer.stride(1), length * buffer.shape[3])
        )
    library.copy_paths(places, len(buffers), from_N.data_ptr(), to_N.data_ptr(), len(to_N), torch.get_num_threads())
    return True


def compile_loops() -> None:
    """Compile the loop for this machine, unless that was done before. A step never waits for a compiler."""
    native.library(_SOURCE)
    _library.cache_clear()


@functools.cache
def _library() -> ctypes.CDLL | None:
    library = native.library(_SOURCE, build=False)
    if isinstance(library, native.Missing):
        return None
    place, number = ctypes.c_void_p, ctypes.c_int64
    library.copy_paths.argtypes = (ctypes.POINTER(_Place), number, place, place, number, number)
    library.copy_paths.restype = None
    return library
