"""Checkpoints: folders of safetensors and JSON that are either complete or absent.

A checkpoint is written under a temporary name, every file is flushed to disk, a manifest with each file's SHA-256 is
added, and the folder is renamed; the rename is flushed too. If the process is killed or the disk is full at any moment,
the earlier checkpoint is still the newest. A folder whose files do not match their manifest is named and skipped.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from regard.core import weights
from regard.core.errors import DataError, WeightsError
from regard.core.manifest import NAME as MANIFEST
from regard.core.manifest import check_manifest, flush_folder, write_manifest

MODEL, TRAINING, STATE = "model.safetensors", "training.safetensors", "state.json"


@dataclass(frozen=True)
class Checkpoint:
    """What a run needs to continue as if it had never stopped."""

    model: Mapping[str, Tensor]
    training: Mapping[str, Tensor]
    state: Mapping[str, Any]


def write(folder: Path, step: int, checkpoint: Checkpoint) -> Path:
    """Write `folder/step-00001234`, all or nothing."""
    final, temporary = folder / f"step-{step:08d}", folder / f".writing-{step:08d}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir()
        weights.write(temporary / MODEL, checkpoint.model)
        weights.write(temporary / TRAINING, checkpoint.training)
        with weights.replacing(temporary / STATE) as file:
            file.write(json.dumps(dict(checkpoint.state), indent=1).encode())
        write_manifest(temporary, (MODEL, TRAINING, STATE))
        if final.exists():
            _remove(final)
        os.rename(temporary, final)
        flush_folder(folder)
    except (OSError, WeightsError) as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise DataError(
            f"checkpoint {final} could not be written",
            got=str(error.__cause__ or error),
            remedy="The checkpoint before it is intact; free some space and run the same command again.",
        ) from error
    return final


def read_checkpoint(path: Path) -> Checkpoint:
    check_manifest(path)
    state = json.loads((path / STATE).read_text())
    return Checkpoint(weights.read_tensors(path / MODEL), weights.read_tensors(path / TRAINING), state)


def listing(folder: Path) -> list[Path]:
    """Complete checkpoints by name, oldest first; half-written ones have another name."""
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if re.fullmatch(r"step-\d{8,}", path.name) and path.is_dir())


def is_complete(path: Path) -> bool:
    """Whether a checkpoint has all of its files; one that was only half removed does not."""
    return all((path / name).is_file() for name in (MODEL, TRAINING, STATE, MANIFEST))


def _remove(path: Path) -> None:
    """Remove a folder, renamed first: if the process is killed in between, the rest is not read as a checkpoint."""
    aside = path.with_name(f".removing-{path.name}")
    shutil.rmtree(aside, ignore_errors=True)
    os.rename(path, aside)
    shutil.rmtree(aside, ignore_errors=True)


def newest(folder: Path, warn: Callable[[str], None]) -> tuple[Path, Checkpoint] | None:
    """The newest intact checkpoint; damaged ones are named and skipped."""
    for path in reversed(listing(folder)):
        try:
            return path, read_checkpoint(path)
        except (WeightsError, DataError, OSError, ValueError) as error:
            warn(f"checkpoint {path.name} is damaged and was skipped ({error})")
    return None


def prune(folder: Path, keep: set[int]) -> None:
    """Remove checkpoints of other steps than these, and the remains of interrupted writes."""
    for path in listing(folder):
        if int(path.name.removeprefix("step-")) not in keep:
            _remove(path)
    for path in folder.glob(".writing-*"):
        shutil.rmtree(path, ignore_errors=True)
