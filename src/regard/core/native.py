"""Loops in C, compiled once on the user's machine by an installed compiler.

A package that needs such a loop keeps the C source beside its Python files, and declares the functions of the library
that `library` returns. The compiled library is kept in the user's cache folder ($REGARD_CACHE, else
$XDG_CACHE_HOME/regard, else ~/.cache/regard). Its name depends on the source, the compiler, the CPU and torch's
version. It is never read from a model folder, and it is only read if nobody else may write the file or its folder. If
anything goes wrong, `library` returns the reason in one line and the caller goes on without the library.
`REGARD_NATIVE=0` switches all compiled loops off.
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

_HEADER = Path(__file__).with_name("native.h")
# -ffast-math is not used: a library that is linked with it changes how the whole process rounds tiny numbers.
_FLAGS = [
    *("-O3", "-march=native", "-fopenmp", "-shared", "-fPIC", "-w"),
    *("-fno-math-errno", "-fno-trapping-math", "-fno-signed-zeros", "-fassociative-math", "-freciprocal-math"),
]
_SECONDS = 120


@dataclass(frozen=True)
class Missing:
    """Why there are no compiled loops."""

    reason: str


def library(source: Path, *, build: bool = True) -> ctypes.CDLL | Missing:
    """The compiled library of a C file. With `build` false it is only loaded if an earlier call has compiled it."""
    if os.environ.get("REGARD_NATIVE") == "0":
        return Missing("REGARD_NATIVE is 0")
    if build:
        return _opened_or_built(source)
    return _opened(source) or Missing("the kernels are not compiled yet")


class StepLoops:
    """One function of a C file, called in decoding steps: a step never waits for a compiler.

    Before `compile`, and where compiling failed, `call` is None. An earlier process may have compiled it.
    """

    def __init__(self, source: Path, name: str, *arguments: type) -> None:
        self._source, self._name, self._arguments = source, name, arguments

    def compile(self) -> None:
        """Compile the loop for this machine, unless that was done before."""
        library(self._source)
        self.__dict__.pop("call", None)

    @functools.cached_property
    def call(self) -> Callable[..., None] | None:
        """The compiled function."""
        opened = library(self._source, build=False)
        if isinstance(opened, Missing):
            return None
        function = getattr(opened, self._name)
        function.argtypes, function.restype = self._arguments, None
        return function


def cache_folder() -> Path:
    """The folder for files that can be made again at any time."""
    own, shared = os.environ.get("REGARD_CACHE"), os.environ.get("XDG_CACHE_HOME")
    return Path(own) if own else (Path(shared) if shared else Path.home() / ".cache") / "regard"


@functools.cache
def _opened_or_built(source: Path) -> ctypes.CDLL | Missing:
    before = _opened(source)
    if before is not None:
        return before
    compiler = _compiler()
    if compiler is None:
        return Missing("there is no C compiler (cc, gcc or clang)")
    try:
        return ctypes.CDLL(str(_built(compiler, source, _file(compiler, source))))
    except (OSError, subprocess.SubprocessError) as error:
        return Missing(f"the kernels could not be compiled: {_one_line(error)}")


def _opened(source: Path) -> ctypes.CDLL | None:
    compiler = _compiler()
    path = None if compiler is None else _file(compiler, source)
    if path is None or not (_is_ours(path) and _is_ours(path.parent)):
        return None
    try:
        return ctypes.CDLL(str(path))
    except OSError:
        return None


def _compiler() -> str | None:
    return next(filter(None, map(shutil.which, (os.environ.get("CC") or "cc", "gcc", "clang"))), None)


@functools.cache
def _file(compiler: str, source: Path) -> Path:
    texts = source.read_bytes(), _HEADER.read_bytes(), " ".join(_FLAGS).encode()
    parts = *texts, _version(compiler), _cpu(), torch.__version__.encode()
    key = hashlib.sha256(b"\0".join(parts)).hexdigest()[:24]
    return cache_folder() / "native" / f"{source.stem}-{key}.so"


@functools.cache
def _version(compiler: str) -> bytes:
    return subprocess.run([compiler, "--version"], capture_output=True, timeout=_SECONDS, check=False).stdout


@functools.cache
def _cpu() -> bytes:
    """The features of the CPU that the compiler may use."""
    try:
        lines = Path("/proc/cpuinfo").read_bytes().splitlines()
    except OSError:
        return platform.processor().encode()
    return b"\n".join(sorted({line for line in lines if line.startswith((b"flags", b"Features", b"model name"))}))


def _built(compiler: str, source: Path, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not _is_ours(path.parent):
        raise OSError(f"others may write to {path.parent}")
    with tempfile.TemporaryDirectory(dir=path.parent, prefix="building-") as folder:
        result = Path(folder) / path.name
        command = [compiler, *_FLAGS, "-o", str(result), str(source), "-lm"]
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
