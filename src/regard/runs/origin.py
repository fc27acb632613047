"""Where a run's recipe stood, kept in its folder: a recipe's paths may be relative, and the folder may be moved."""

from __future__ import annotations

import json
from pathlib import Path

from regard.core import weights

_FILE = "origin.json"


def write_origin(out: Path, folder: Path) -> None:
    """Keep the recipe's folder and where the command was given."""
    with weights.replacing(out / "data" / _FILE) as file:
        file.write((json.dumps([str(folder), str(Path.cwd())]) + "\n").encode())


def origins(out: Path) -> list[Path]:
    """Folders that the paths of a run's recipe may be relative to, the likeliest first."""
    try:
        known = json.loads((out / "data" / _FILE).read_text())
    except (OSError, ValueError):
        known = []
    listed = [Path(text) for text in known if isinstance(text, str)] if isinstance(known, list) else []
    return [*listed, out.absolute(), out.absolute().parent]
