"""Pictures of what was measured: SVG or PNG, readable for colour-blind people."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from regard.core.errors import UsageError


def write_heat_map(path: Path, matrix: list[list[float]], rows: Sequence[str], columns: Sequence[str]) -> None:
    """A matrix with a row for each query and a column for each key, colours from 0 to the largest."""
    if path.suffix not in (".svg", ".png"):
        raise UsageError("unknown kind of picture", got=repr(path.suffix), expected=".svg, .png or .json")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    size = (1.5 + 0.32 * len(columns), 1.2 + 0.32 * len(rows))
    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    image = axes.imshow(matrix, cmap="cividis", vmin=0.0, aspect="auto")
    axes.set_xticks(
        range(len(columns)), [_plain(label) for label in columns], rotation=60, ha="left", rotation_mode="anchor"
    )
    axes.set_yticks(range(len(rows)), [_plain(label) for label in rows])
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    figure.colorbar(image, ax=axes, fraction=0.04)
    try:
        figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)
    except OSError as error:
        raise UsageError(f"{path} could not be written", got=error.strerror) from None


def _plain(label: str) -> str:
    """A dollar sign would start mathematics."""
    return label.replace("$", r"\$")
