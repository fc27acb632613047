"""Named points in a plane: on a matplotlib figure, as an SVG in a page, and as a table for the terminal."""

from __future__ import annotations

import html
import math
from typing import TYPE_CHECKING

from regard.views.labels import visible
from regard.views.result import Points, Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WIDTH, _HEIGHT, _EDGE = 720.0, 480.0, 40.0


def draw_points(axes: Axes, panel: Points) -> None:
    """Points with their labels above them, on equal scales."""
    points = _finite(panel)
    axes.scatter([x for x, _, _ in points], [y for _, y, _ in points], s=14, color="#0060a8")
    for x, y, label in points:
        text = visible(label).replace("$", r"\$")
        axes.annotate(text, (x, y), xytext=(0, 4), textcoords="offset points", ha="center", fontsize=8)
    axes.set_aspect("equal", adjustable="datalim")
    axes.set(xlabel=panel.x.replace("$", r"\$"), ylabel=panel.y.replace("$", r"\$"))
    axes.margins(0.12)
    axes.spines[["top", "right"]].set_visible(False)


def points_svg(panel: Points) -> str:
    """The same as an inline SVG; colours follow the page's text."""
    points = _finite(panel)
    shapes = []
    if points:
        xs, ys = [x for x, _, _ in points], [y for _, y, _ in points]
        reach = max((max(xs) - min(xs)) / (_WIDTH - 2 * _EDGE), (max(ys) - min(ys)) / (_HEIGHT - 2 * _EDGE)) or 1.0
        middle = (max(xs) + min(xs)) / 2, (max(ys) + min(ys)) / 2
        for x, y, label in points:
            left, top = _WIDTH / 2 + (x - middle[0]) / reach, _HEIGHT / 2 - (y - middle[1]) / reach
            shapes.append(
                f'<circle cx="{left:.1f}" cy="{top:.1f}" r="3" fill="currentColor"/><text x="{left:.1f}" '
                f'y="{top - 7:.1f}" text-anchor="middle" font-size="12" fill="currentColor">'
                f"{html.escape(visible(label))}</text>"
            )
    return (
        f'<svg viewBox="0 0 {_WIDTH:.0f} {_HEIGHT:.0f}" width="100%" role="img" '
        f'aria-label="{html.escape(visible(panel.name))}">{"".join(shapes)}</svg>'
    )


def points_table(panel: Points) -> Table:
    return Table(panel.name, ["", panel.x, panel.y], [[label, x, y] for x, y, label in panel.points], panel.note)


def _finite(panel: Points) -> list[tuple[float, float, str]]:
    return [point for point in panel.points if math.isfinite(point[0]) and math.isfinite(point[1])]
