"""Paths as recipes write them: `$REGARD_DATA/ptb/train.txt`, `~/text.de`; and links in model folders."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from pathlib import Path
from typing import TypeVar, cast

from regard.core.errors import DataError

_READ = (".json", ".safetensors", ".txt", ".model", ".spm", ".bin")
_FOLDERS = ("1_Pooling",)
Item = TypeVar("Item")
_bases: ContextVar[tuple[Path, ...]] = ContextVar("bases", default=())


@contextmanager
def relative_to(*folders: Path) -> Iterator[None]:
    """In the block, what is not found from where one stands is looked for in these folders, in this order."""
    token = _bases.set(tuple(folders))
    try:
        yield
    finally:
        _bases.reset(token)


def here(items: Iterable[Item]) -> Iterator[Item]:
    """The items, each made with the folders of `relative_to` as they are now, in whatever thread that is done."""
    context, iterator, end = copy_context(), iter(items), object()

    def made() -> Iterator[Item]:
        while (item := context.run(next, iterator, end)) is not end:
            yield cast(Item, item)

    return made()


def expand_path(text: str) -> Path:
    """The path with variables and `~` filled in; a relative one from where one stands, or from its recipe's folder."""
    path = os.path.expandvars(os.path.expanduser(text))
    if "$" in path:
        raise DataError(f"{text} names a variable that is not set", remedy="Set it: export REGARD_DATA=/path/to/data")
    if os.path.isabs(path) or os.path.exists(path):
        return Path(path)
    return next((folder / path for folder in _bases.get() if (folder / path).exists()), Path(path))


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
