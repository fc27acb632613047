"""Paths as recipes write them: `$REGARD_DATA/ptb/train.txt`, `~/text.de`."""

from __future__ import annotations

import os
from pathlib import Path

from regard.core.errors import DataError


def expand_path(text: str) -> Path:
    """The path with variables and `~` filled in."""
    path = os.path.expandvars(os.path.expanduser(text))
    if "$" in path:
        raise DataError(f"{text} names a variable that is not set", remedy="Set it: export REGARD_DATA=/path/to/data")
    return Path(path)
