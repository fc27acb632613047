"""Small loops in C, compiled once on this machine by the compiler that it has.

The result is kept in the user's cache folder ($REGARD_CACHE, else $XDG_CACHE_HOME/regard, else ~/.cache/regard), under
a name that follows from the source, the compiler and the CPU. It is never read from a model folder, and only from a
folder and a file that nobody else may write. Whatever goes wrong, there is a reason in one line and the caller goes on
without it.
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
from dataclasses import dataclass
from pathlib import Path

# Not -ffast-math: linked into a library it changes how the whole process rounds tiny numbers.
_FLAGS = [
    *("-O3", "-march=native", "-fopenmp", "-shared", "-fPIC", "-w"),
    *("-fno-math-errno", "-fno-trapping-math", "-fno-signed-zeros", "-fassociative-math", "-freciprocal-math"),
]
_SECONDS = 120


@dataclass(frozen=True)
class Missing:
    """Why there is no compiled library."""

    reason: str


@functools.cache
def library(source: Path) -> ctypes.CDLL | Missing:
    """The compiled source file."""
    if os.environ.get("REGARD_NATIVE") == "0":
        return Missing("REGARD_NATIVE is 0")
    compiler = next(filter(None, map(shutil.which, (os.environ.get("CC") or "cc", "gcc", "clang"))), None)
    if compiler is None:
        return Missing("there is no C compiler (cc, gcc or clang)")
    try:
        path = _file(compiler, source)
        if not (_is_ours(path) and _is_ours(path.parent)):
            _build(compiler, source, path)
        return ctypes.CDLL(str(path))
    except (OSError, subprocess.SubprocessError) as error:
        return Missing(f"{source.name} could not be compiled: {' '.join(str(error).split())[:200]}")


def _file(compiler: str, source: Path) -> Path:
    version = subprocess.run([compiler, "--version"], capture_output=True, timeout=_SECONDS, check=False).stdout
    parts = (source.read_bytes(), " ".join(_FLAGS).encode(), version, _cpu())
    key = hashlib.sha256(b"\0".join(parts)).hexdigest()[:24]
    own, shared = os.environ.get("REGARD_CACHE"), os.environ.get("XDG_CACHE_HOME")
    cache = Path(own) if own else (Path(shared) if shared else Path.home() / ".cache") / "regard"
    return cache / "native" / f"{source.stem}-{key}.so"


def _cpu() -> bytes:
    try:
        lines = Path("/proc/cpuinfo").read_bytes().splitlines()
    except OSError:
        return platform.processor().encode()
    return b"\n".join(sorted({line for line in lines if line.startswith((b"flags", b"Features", b"model name"))}))


def _build(compiler: str, source: Path, path: Path) -> None:
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


def _is_ours(path: Path) -> bool:
    try:
        about = path.stat()
    except OSError:
        return False
    return about.st_uid == os.getuid() and not about.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
