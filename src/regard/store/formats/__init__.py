"""Formats of models on disk, one file each. A file defines `recognises(path, config)`, `load(path, config)` and, if the
format can be written, `save(path, stored)`, with `unsaid(stored)` if a folder cannot store everything. `config` holds
the folder's config.json, or None if there is none.
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
    """The protocol of a file in this folder."""

    def recognises(self, path: Path, config: FolderConfig) -> bool: ...
    def load(self, path: Path, config: FolderConfig) -> StoredModel: ...


class WritableFormat(Format, Protocol):
    def save(self, path: Path, stored: StoredModel) -> None: ...


@functools.cache
def formats() -> dict[str, Format]:
    """All formats by name, from the folder's listing."""
    return {name: cast(Format, importlib.import_module(f"{__name__}.{name}")) for name in lookup.names(__name__)}
