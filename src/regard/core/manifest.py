"""A manifest of SHA-256 sums beside the files of a folder: damage is found by name before anything is used."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path

from regard.core.errors import WeightsError
from regard.core.weights import replacing

NAME = "manifest.json"


def write_manifest(folder: Path, names: Iterable[str]) -> None:
    """Sums of these files of the folder."""
    files = [folder / name for name in sorted(names)]
    sums = {path.name: {"sha256": digest(path), "bytes": path.stat().st_size} for path in files}
    with replacing(folder / NAME) as file:
        file.write((json.dumps(sums, indent=1) + "\n").encode())


def check_manifest(folder: Path) -> None:
    """Refuse a folder one of whose files is missing or is not what the manifest says; name the file."""
    try:
        sums = json.loads((folder / NAME).read_text())
        expected = {str(name): str(entry["sha256"]) for name, entry in sums.items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise WeightsError(f"{folder / NAME} cannot be read", got=type(error).__name__) from None
    for name, recorded in expected.items():
        path = folder / name
        if path.parent != folder or not path.is_file():
            raise WeightsError(f"{path} is missing", remedy="Copy the folder again, or train it again.")
        if digest(path) != recorded:
            raise WeightsError(
                f"{path} is damaged",
                got="another SHA-256 than its manifest says",
                remedy="Copy the folder again; if you changed the file on purpose, delete manifest.json.",
            )


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def flush_folder(folder: Path) -> None:
    """Make a rename inside the folder last through a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
