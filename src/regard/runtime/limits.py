"""The limits of the machine: how fast memory is read, and how fast products are computed.

A step of generation reads every weight once and multiplies it with every row:

    seconds of a step ≥ max(bytes of weights / read rate, 2 · weights · rows / product rate)

Each rate is the best of several methods and repeats, since other work on the machine can only lower it.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from regard.runtime.native import Missing, kernels
from regard.runtime.products import PackedBfloat16, PackedFloat, PackedInt8

_READ = 16384, 4096  # float32: 256 MB, more than a cache holds
_PRODUCT = 256, 2048, 2048  # rows, inputs, outputs
_REPEATS = 5
_FLAGS = ("avx2", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8", "asimddp", "i8mm")


@dataclass(frozen=True)
class Rate:
    """A measured rate in units of 10⁹ per second, and the method that reached it."""

    giga: float
    by: str


@dataclass(frozen=True)
class Limits:
    """`read` in bytes; the others in operations, two for each multiplication and addition."""

    read: Rate
    float32: Rate
    bfloat16: Rate | None
    """None if there are no compiled kernels, or if the CPU has no bfloat16 products."""
    int8: Rate | None
    """None if there are no compiled kernels."""

    def best(self, other: Limits) -> Limits:
        """The larger of each rate."""
        return Limits(
            max(self.read, other.read, key=_giga),
            max(self.float32, other.float32, key=_giga),
            _larger(self.bfloat16, other.bfloat16),
            _larger(self.int8, other.int8),
        )


def measure_limits() -> Limits:
    """The rates of the machine, with torch's number of threads."""
    native = kernels()
    numbers_NK = torch.rand(_READ)
    row_1K = torch.rand(1, _READ[1])
    reads: dict[str, Callable[[], object]] = {"torch.sum": numbers_NK.sum, "torch.amax": numbers_NK.amax}
    x_MK, weight_NK = torch.rand(_PRODUCT[0], _PRODUCT[1]), torch.rand(_PRODUCT[2], _PRODUCT[1])
    products: dict[str, Callable[[], object]] = {"torch.mm": lambda: torch.mm(x_MK, weight_NK.T)}
    halves: dict[str, Callable[[], object]] = {}
    eights: dict[str, Callable[[], object]] = {}
    if not isinstance(native, Missing):
        packed, packed_int8 = PackedFloat(native, weight_NK, None), PackedInt8(native, weight_NK, None)
        large = PackedFloat(native, numbers_NK, None)
        reads["packed product"] = lambda: large(row_1K)
        products["packed product"] = lambda: packed(x_MK)
        eights["packed product"] = lambda: packed_int8(x_MK)
        if native.has_low_products:
            packed_low = PackedBfloat16(native, weight_NK, None)
            halves["packed product"] = lambda: packed_low(x_MK)
    operations = 2 * _PRODUCT[0] * _PRODUCT[1] * _PRODUCT[2]
    with torch.inference_mode():
        return Limits(
            _fastest(reads, numbers_NK.nbytes),
            _fastest(products, operations),
            _fastest(halves, operations) if halves else None,
            _fastest(eights, operations) if eights else None,
        )


def cpu() -> str:
    """The name of the CPU, and which instructions for products it has."""
    name, flags = platform.processor() or platform.machine(), set[str]()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    for line in lines:
        key, _, value = (part.strip() for part in line.partition(":"))
        if key == "model name":
            name = value
        elif key in ("flags", "Features"):
            flags |= set(value.split())
    known = [flag for flag in _FLAGS if flag in flags]
    return f"{name} ({', '.join(known)})" if known else name


def _fastest(calls: dict[str, Callable[[], object]], amount: int) -> Rate:
    rates = []
    for by, call in calls.items():
        call()
        for _ in range(_REPEATS):
            start = time.perf_counter()
            call()
            rates.append(Rate(amount / (time.perf_counter() - start) / 1e9, by))
    return max(rates, key=_giga)


def _larger(a: Rate | None, b: Rate | None) -> Rate | None:
    known = [rate for rate in (a, b) if rate is not None]
    return max(known, key=_giga) if known else None


def _giga(rate: Rate) -> float:
    return rate.giga
