"""Removes what a killed run leaves behind: half-written files and half-removed checkpoints."""

from __future__ import annotations

import shutil
from pathlib import Path

from regard.training import checkpoint


def sweep(out: Path) -> None:
    """Clean a run's folder; the caller holds its lock, so nobody is writing."""
    for place in (out, out / "data", out / "data" / "train", out / "data" / "validation"):
        for path in place.glob(".*.part"):
            path.unlink(missing_ok=True)
    checkpoints = out / "checkpoints"
    for path in [*checkpoints.glob(".writing-*"), *checkpoints.glob(".removing-*")]:
        shutil.rmtree(path, ignore_errors=True)
    for path in checkpoint.listing(checkpoints):
        if not checkpoint.is_complete(path):
            shutil.rmtree(path, ignore_errors=True)
        for part in path.glob(".*.part"):
            part.unlink(missing_ok=True)
