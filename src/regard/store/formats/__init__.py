"""Formats of models on disk, one file each: `recognises(path, config)`, `load(path, config)` and, where it can be
written, `save(path, stored)`, with `unsaid(stored)` where a folder cannot say everything. `config` is what the folder's
config.json holds, None where there is none.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, cast

from regard.core import lookup
from regard.store.stored_model import StoredModel

FolderConfig = Mapping[str, Any] | None


class Format(Protocol):
    """What a file of this folder defines."""

    def recognises(self, path: Path, config: FolderConfig) -> bool: ...
    def load(self, path: Path, config: FolderConfig) -> StoredModel: ...


class WritableFormat(Format, Protocol):
    def save(self, path: Path, stored: StoredModel) -> None: ...


@functools.cache
def formats() -> dict[str, Format]:
    """All formats by name, by the folder's listing."""
    return {name: cast(Format, importlib.import_module(f"{__name__}.{name}")) for name in lookup.names(__name__)}
