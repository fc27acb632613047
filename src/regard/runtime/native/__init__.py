"""The loops in C that run a model (`kernels.c`), compiled as described in `core.native`."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from pathlib import Path

from regard.core import native
from regard.core.native import Missing

_SOURCE = Path(__file__).with_name("kernels.c")

__all__ = ["Attention", "Kernels", "Missing", "Operation", "Part", "kernels"]


class Part(ctypes.Structure):
    """See kernels.c."""

    _fields_ = [("numbers", ctypes.c_void_p), ("row", ctypes.c_int64), ("head", ctypes.c_int64)]


class Attention(ctypes.Structure):
    """See kernels.c."""

    _fields_ = [
        *((name, Part) for name in ("query", "new_keys", "new_values", "keys", "values")),
        *((name, ctypes.c_void_p) for name in ("context", "room", "slots", "first", "last", "allowed")),
        *((name, ctypes.c_int64) for name in ("allowed_row", "rows", "heads", "key_heads", "width", "longest")),
        ("scale", ctypes.c_float),
    ]


class Operation(ctypes.Structure):
    """See kernels.c."""

    _fields_ = [
        ("kind", ctypes.c_int64),
        ("form", ctypes.c_int64),
        *((name, ctypes.c_void_p) for name in ("x", "residual", "y")),
        *((name, ctypes.c_int64) for name in ("k", "n")),
        *((name, ctypes.c_void_p) for name in ("weights", "scales", "offsets", "bias", "room")),
        ("attention", Attention),
        ("eps", ctypes.c_float),
    ]


class Kernels:
    """The functions of the compiled library."""

    pack_float: Callable[..., None]
    product_float: Callable[..., None]
    pack_low: Callable[..., None]
    product_low: Callable[..., None]
    pack_int8: Callable[..., None]
    product_int8: Callable[..., None]
    run_step: Callable[..., None]
    let_go: Callable[..., None]
    trim: Callable[[], None]

    def __init__(self, library: ctypes.CDLL) -> None:
        number, place = ctypes.c_int64, ctypes.c_void_p
        signatures = {
            "pack_float": (place, number, number, place),
            "product_float": (place, number, number, place, number, place, place, place),
            "pack_low": (place, number, number, place),
            "product_low": (place, number, number, place, number, *(place,) * 4),
            "pack_int8": (place, number, number, place, place, place),
            "product_int8": (place, number, number, place, place, place, number, *(place,) * 5),
            "run_step": (ctypes.POINTER(Operation), number, number),
            "let_go": (place, number),
            "trim": (),
        }
        for name, types in signatures.items():
            function = getattr(library, name)
            function.argtypes, function.restype = types, None
            setattr(self, name, function)
        self.has_low_products = bool(library.has_low_products())
        """Whether this CPU multiplies bfloat16 numbers."""


def kernels(*, build: bool = True) -> Kernels | Missing:
    """The compiled kernels. With `build` false they are only loaded if an earlier call has compiled them."""
    library = native.library(_SOURCE, build=build)
    return library if isinstance(library, Missing) else _described(library)


@functools.cache
def _described(library: ctypes.CDLL) -> Kernels:
    return Kernels(library)
