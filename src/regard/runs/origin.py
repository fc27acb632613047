"""Stores where a run's recipe was: a recipe's paths may be relative, and the run's folder may be moved."""

from __future__ import annotations

import json
from pathlib import Path

from regard.core import weights

_FILE = "origin.json"


def write_origin(out: Path, folder: Path) -> None:
    """Store the recipe's folder and the working directory."""
    with weights.replacing(out / "data" / _FILE) as file:
        file.write((json.dumps([str(folder), str(Path.cwd())]) + "\n").encode())


def origins(out: Path) -> list[Path]:
    """The folders to which the paths of a run's recipe may be relative, the most likely first."""
    try:
        known = json.loads((out / "data" / _FILE).read_text())
    except (OSError, ValueError):
        known = []
    listed = [Path(text) for text in known if isinstance(text, str)] if isinstance(known, list) else []
    return [*listed, out.absolute(), out.absolute().parent]
