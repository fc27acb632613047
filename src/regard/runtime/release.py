"""Frees the memory of weights that have been packed: the packed copy replaces them, and they are rarely read again.

Weights that are mapped from a file are dropped, and read again from the file when they are needed (by a watched call or
an embedding). Weights that are not mapped from a file stay in memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from torch import Tensor

from regard.runtime.native import Kernels

_MAPS = Path("/proc/self/maps")


def release(weights: Iterable[Tensor], kernels: Kernels) -> None:
    """Drop the pages of those weights that are mapped from files."""
    regions = _file_regions()
    for weight in weights:
        start = weight.data_ptr()
        if any(first <= start < last for first, last in regions):
            kernels.let_go(start, weight.nbytes)
    kernels.trim()  # return the freed copies that packing leaves behind to the system


def _file_regions() -> list[tuple[int, int]]:
    """The address ranges at which files are mapped; empty if the system does not list them."""
    try:
        lines = _MAPS.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    fields = (line.split() for line in lines)
    pairs = (parts[0].split("-") for parts in fields if len(parts) > 4 and parts[4] != "0")
    return [(int(first, 16), int(last, 16)) for first, last in pairs]
