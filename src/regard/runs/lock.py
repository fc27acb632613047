"""Allows one run at a time in a folder: two runs would overwrite each other's checkpoints.

The lock belongs to the process, not to the file: it ends with the process, however that ended.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from regard.core.errors import DataError

try:
    import fcntl
except ImportError:  # this system has no such locks; users must keep runs apart themselves
    fcntl = None  # type: ignore[assignment]

NAME = ".lock"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder's lock; if another process holds it, the error names that process."""
    folder.mkdir(parents=True, exist_ok=True)
    if fcntl is None:
        yield
        return
    handle = os.open(folder / NAME, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _taken(folder, os.read(handle, 4096)) from None
        os.ftruncate(handle, 0)
        os.pwrite(handle, json.dumps({"pid": os.getpid(), "host": platform.node()}).encode(), 0)
        yield
        os.ftruncate(handle, 0)
    finally:
        os.close(handle)


def _taken(folder: Path, content: bytes) -> DataError:
    holder: Any = {}
    try:
        holder = json.loads(content)
        who = f"process {int(holder['pid'])} on {holder['host']}"
    except (ValueError, KeyError, TypeError):
        who = "another process"
    return DataError(
        f"{folder} is in use by another run", got=who, remedy="Wait until it has ended, or give another --out."
    )
