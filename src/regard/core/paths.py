"""Paths as recipes write them: `$REGARD_DATA/ptb/train.txt`, `~/text.de`; and links in model folders."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from pathlib import Path
from typing import TypeVar, cast

from regard.core.errors import DataError

_READ = (".json", ".safetensors", ".txt", ".model", ".spm", ".bin")
IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".webp", ".tif", ".tiff")
_FOLDERS = ("1_Pooling",)
Item = TypeVar("Item")
_bases: ContextVar[tuple[Path, ...]] = ContextVar("bases", default=())


@contextmanager
def relative_to(*folders: Path) -> Iterator[None]:
    """Inside the block, look for relative paths in the working directory first, then in these folders in order."""
    token = _bases.set(tuple(folders))
    try:
        yield
    finally:
        _bases.reset(token)


def here(items: Iterable[Item]) -> Iterator[Item]:
    """Yield the items. Each is computed with the current folders of `relative_to`, whichever thread consumes it."""
    context, iterator, end = copy_context(), iter(items), object()

    def made() -> Iterator[Item]:
        while (item := context.run(next, iterator, end)) is not end:
            yield cast(Item, item)

    return made()


def expand_path(text: str) -> Path:
    """Expand variables and `~`. A relative path that does not exist in the working directory is looked up in the
    folders of `relative_to`."""
    path = os.path.expandvars(os.path.expanduser(text))
    if "$" in path:
        named = re.search(r"\$(?:(\w+)|\{([^}]+)\})", path)
        if named is None:
            raise DataError(
                f"{text} has a $ that names no variable", remedy="Give a path such as $REGARD_DATA/train.txt."
            )
        name = named[1] or named[2]
        raise DataError(f"{text}: the variable {name} is not set", remedy=f"Set it: export {name}=/path/to/folder")
    if os.path.isabs(path) or os.path.exists(path):
        return Path(path)
    return next((folder / path for folder in _bases.get() if (folder / path).exists()), Path(path))


def check_links(folder: Path) -> None:
    """Refuse a model folder if one of its files is a link that leads outside: see `check_link`."""
    for path in sorted(folder.iterdir()):
        if path.is_symlink() and (path.suffix in _READ or path.name in _FOLDERS):
            check_link(path, folder)


def check_link(path: Path, folder: Path) -> None:
    """Refuse a link that leads out of its model folder, unless it goes from a Hugging Face snapshot to its blobs.

    Without this check, a folder from someone else could make regard read, convert or copy any file of the user.
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
