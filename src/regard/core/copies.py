"""Copies paths from slot to slot in one call of compiled code (`copies.c`), if it has been compiled."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from regard.core.native import StepLoops


class _Place(ctypes.Structure):
    """See copies.c."""

    _fields_ = [
        ("numbers", ctypes.c_void_p),
        *((name, ctypes.c_int64) for name in ("slot", "heads", "head", "used")),
    ]


_NUMBER, _ADDRESS = ctypes.c_int64, ctypes.c_void_p
LOOPS = StepLoops(
    *(Path(__file__).with_name("copies.c"), "copy_paths"),
    *(ctypes.POINTER(_Place), _NUMBER, _ADDRESS, _ADDRESS, _NUMBER, _NUMBER),
)


def copy_paths(buffers: Sequence[Tensor], from_N: Tensor, to_N: Tensor, length: int) -> bool:
    """Copy the first `length` tokens of slots `from` to slots `to` in all buffers [P,H,C,E]; return True if done.

    Nothing is copied if a slot is in both lists, if a buffer is not on the CPU or not contiguous, or if the loop is not
    compiled.
    """
    copy = LOOPS.call
    if copy is None or any(buffer.device.type != "cpu" or not buffer.is_contiguous() for buffer in buffers):
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
    copy(places, len(buffers), from_N.data_ptr(), to_N.data_ptr(), len(to_N), torch.get_num_threads())
    return True
