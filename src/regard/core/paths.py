"""Paths as recipes write them: `$REGARD_DATA/ptb/train.txt`, `~/text.de`; and links in model folders."""

from __future__ import annotations

import os
from pathlib import Path

from regard.core.errors import DataError

_READ = (".json", ".safetensors", ".txt", ".model", ".spm", ".bin")
_FOLDERS = ("1_Pooling",)


def expand_path(text: str) -> Path:
    """The path with variables and `~` filled in."""
    path = os.path.expandvars(os.path.expanduser(text))
    if "$" in path:
        raise DataError(f"{text} names a variable that is not set", remedy="Set it: export REGARD_DATA=/path/to/data")
    return Path(path)


def check_links(folder: Path) -> None:
    """Refuse a model folder with a link among its files that leads outside: see `check_link`."""
    for path in sorted(folder.iterdir()):
        if path.is_symlink() and (path.suffix in _READ or path.name in _FOLDERS):
            check_link(path, folder)


def check_link(path: Path, folder: Path) -> None:
    """Links of a model folder are followed inside its own tree, and from a Hugging Face cache's snapshots to its blobs.

    Anything else could make a folder that was sent by someone read, and convert or copy, a file of the reader's.
    """
    target, own = path.resolve(), folder.resolve()
    allowed = [own, *([own.parent.parent / "blobs"] if own.parent.name == "snapshots" else [])]
    if not any(target.is_relative_to(place) for place in allowed):
        raise DataError(
            f"{path} is a link that leads outside its folder",
            got=str(target),
            expected=f"a file in {own}, or in the blobs of a Hugging Face cache",
            remedy="If you trust it, put a copy of the file in its place.",
        )
