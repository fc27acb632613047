"""A manifest of SHA-256 sums beside the files of a folder: damaged files are reported before anything is used."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from regard.core.errors import WeightsError
from regard.core.weights import replacing

NAME = "manifest.json"
_REMEDY = "Copy the folder again. If you changed it on purpose: python -m regard.core.manifest FOLDER"


def write_manifest(folder: Path, names: Iterable[str]) -> None:
    """Write the sums of these files of the folder."""
    _write(folder, {name: (digest(folder / name), (folder / name).stat().st_size) for name in names})


def check_names(folder: Path, required: Iterable[str]) -> None:
    """Refuse a folder without a manifest, and a manifest that leaves out a required file that the folder contains."""
    named = _read(folder)
    for name in required:
        if name not in named and (folder / name).exists():
            raise WeightsError(f"{folder / NAME} does not name {name}", got=f"{len(named)} files", remedy=_REMEDY)


def check_manifest(folder: Path) -> None:
    """Refuse a folder if a file is missing or differs from the manifest; the error names the file."""
    expected = _read(folder)
    for name, (recorded, size) in expected.items():
        path = folder / name
        if path.parent != folder or not path.is_file():
            raise WeightsError(f"{path} is missing", remedy="Copy the folder again, or train it again.")
        if path.stat().st_size != size:
            got = f"{path.stat().st_size} bytes, its manifest says {size}"
            raise WeightsError(f"{path} is damaged, or its manifest is", got=got, remedy=_REMEDY)
        if digest(path) != recorded:
            raise WeightsError(f"{path} is damaged", got="a SHA-256 that differs from its manifest", remedy=_REMEDY)


def update_manifest(folder: Path, name: str, data: bytes) -> None:
    """Write a file and its manifest entry, in an order in which file and manifest never disagree.

    The sums of the other files stay as they are: a damaged file must not get a sum that fits it."""
    sums = _read(folder)
    if sums.pop(name, None) is not None:
        _write(folder, sums)
    with replacing(folder / name) as file:
        file.write(data)
    _write(folder, {**sums, name: (hashlib.sha256(data).hexdigest(), len(data))})


def _write(folder: Path, sums: Mapping[str, tuple[str, int]]) -> None:
    entries = {name: {"sha256": sha256, "bytes": size} for name, (sha256, size) in sorted(sums.items())}
    with replacing(folder / NAME) as file:
        file.write((json.dumps(entries, indent=1) + "\n").encode())


def _read(folder: Path) -> dict[str, tuple[str, int]]:
    try:
        sums = json.loads((folder / NAME).read_text())
        return {str(name): (str(entry["sha256"]), int(entry["bytes"])) for name, entry in sums.items()}
    except FileNotFoundError:
        raise WeightsError(
            f"{folder} has no {NAME}, so damage cannot be detected", got="no such file", remedy=_REMEDY
        ) from None
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise WeightsError(f"{folder / NAME} cannot be read", got=type(error).__name__, remedy=_REMEDY) from None


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def flush_folder(folder: Path) -> None:
    """Make a rename inside the folder survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


if __name__ == "__main__":  # writes new sums, for a folder that was changed on purpose
    place = Path(sys.argv[1])
    write_manifest(place, [file.name for file in place.iterdir() if file.suffix in (".json", ".safetensors", ".md")
                           and file.name != NAME])  # fmt: skip
