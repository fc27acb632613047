"""The loops in C (`kernels.c`), compiled once on this machine by the compiler that it has.

The result is kept in the user's cache folder ($REGARD_CACHE, else $XDG_CACHE_HOME/regard, else ~/.cache/regard), under
a name that follows from the source, the compiler, the CPU and torch's version. It is never read from a model folder,
and only from a folder and a file that nobody else may write. Whatever goes wrong, there is a reason in one line and
the caller goes on without it.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import platform
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

_SOURCE = Path(__file__).with_name("kernels.c")
_VERSION = 2
# Not -ffast-math: linked into a library it changes how the whole process rounds tiny numbers.
_FLAGS = [
    *("-O3", "-march=native", "-fopenmp", "-shared", "-fPIC", "-w"),
    *("-fno-math-errno", "-fno-trapping-math", "-fno-signed-zeros", "-fassociative-math", "-freciprocal-math"),
]
_SECONDS = 120


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


@dataclass(frozen=True)
class Missing:
    """Why there are no kernels."""

    reason: str


class Kernels:
    """The functions of a compiled library."""

    pack_float: Callable[..., None]
    product_float: Callable[..., None]
    pack_int8: Callable[..., None]
    product_int8: Callable[..., None]
    attend_paths: Callable[..., None]

    def __init__(self, path: Path) -> None:
        library = ctypes.CDLL(str(path))
        number, place = ctypes.c_int64, ctypes.c_void_p
        signatures = {
            "pack_float": (place, number, number, place),
            "product_float": (place, number, number, place, number, place, place, place),
            "pack_int8": (place, number, number, place, place, place),
            "product_int8": (place, number, number, place, place, place, number, *(place,) * 5),
            "attend_paths": (ctypes.POINTER(Attention),),
        }
        for name, types in signatures.items():
            function = getattr(library, name)
            function.argtypes, function.restype = types, None
            setattr(self, name, function)
        if library.kernel_version() != _VERSION:
            raise OSError(f"{path} is of another version")


def kernels(*, build: bool = True) -> Kernels | Missing:
    """The compiled kernels; unless `build`, only where an earlier call has compiled them."""
    if os.environ.get("REGARD_NATIVE") == "0":
        return Missing("REGARD_NATIVE is 0")
    return _load_or_build() if build else _loaded_before() or Missing("the kernels are not compiled yet")


@functools.cache
def _load_or_build() -> Kernels | Missing:
    before = _loaded_before()
    if before is not None:
        return before
    compiler = _compiler()
    if compiler is None:
        return Missing("there is no C compiler (cc, gcc or clang)")
    try:
        return Kernels(_build(compiler, _file(compiler)))
    except (OSError, subprocess.SubprocessError) as error:
        return Missing(f"the kernels could not be compiled: {_one_line(error)}")


def _loaded_before() -> Kernels | None:
    compiler = _compiler()
    path = None if compiler is None else _file(compiler)
    if path is None or not (_is_ours(path) and _is_ours(path.parent)):
        return None
    try:
        return Kernels(path)
    except OSError:
        return None


def _compiler() -> str | None:
    return next(filter(None, map(shutil.which, (os.environ.get("CC") or "cc", "gcc", "clang"))), None)


@functools.cache
def _file(compiler: str) -> Path:
    version = subprocess.run([compiler, "--version"], capture_output=True, timeout=_SECONDS, check=False).stdout
    parts = (_SOURCE.read_bytes(), " ".join(_FLAGS).encode(), version, _cpu(), torch.__version__.encode())
    key = hashlib.sha256(b"\0".join(parts)).hexdigest()[:24]
    return cache_folder() / "native" / f"kernels-{key}.so"


def cache_folder() -> Path:
    """Where things are kept that can be made again at any time."""
    own, shared = os.environ.get("REGARD_CACHE"), os.environ.get("XDG_CACHE_HOME")
    return Path(own) if own else (Path(shared) if shared else Path.home() / ".cache") / "regard"


def _cpu() -> bytes:
    """What the compiler may use."""
    try:
        lines = Path("/proc/cpuinfo").read_bytes().splitlines()
    except OSError:
        return platform.processor().encode()
    return b"\n".join(sorted({line for line in lines if line.startswith((b"flags", b"Features", b"model name"))}))


def _build(compiler: str, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not _is_ours(path.parent):
        raise OSError(f"others may write to {path.parent}")
    with tempfile.TemporaryDirectory(dir=path.parent, prefix="building-") as folder:
        result = Path(folder) / path.name
        command = [compiler, *_FLAGS, "-o", str(result), str(_SOURCE), "-lm"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
        if done.returncode:
            raise OSError(done.stderr.strip() or f"{compiler} returned {done.returncode}")
        result.chmod(0o700)
        result.rename(path)
    return path


def _is_ours(path: Path) -> bool:
    try:
        about = path.stat()
    except OSError:
        return False
    return about.st_uid == os.getuid() and not about.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
