"""Coloured words on a matplotlib figure: a text, or a document with the weights of its sentences in the margin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from regard.views.colours import DIVERGING, Colour, colour_at, fraction, is_dark, limits
from regard.views.labels import visible
from regard.views.result import Document, Words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

Placed = tuple[float, float, str, float]
"""A word in a line: its position, width, label and value."""

_ROOM = 104.0  # characters in a line of words
_MARGIN = 8.0  # characters for the weight of a sentence
_LONGEST = 40  # characters of a word
_LINES = 200  # a picture with more lines is slow to draw, and too tall
_WEIGHTS: list[Colour] = [(255, 255, 255), (170, 40, 40)]


def n_lines(panel: Words | Document) -> int:
    """The number of lines of a panel; a longer panel is cut, and its last line says so."""
    if isinstance(panel, Words):
        lines = len(_wrapped(panel.labels, panel.values))
    else:
        lines = sum(len(_wrapped(*pair, _MARGIN)) for pair in zip(panel.labels, panel.values, strict=True))
    return min(lines, _LINES + 1)


def draw_words(axes: Axes, panel: Words) -> None:
    lines = _wrapped(panel.labels, panel.values)
    ends = limits(panel.values, diverging=panel.diverging)
    _prepare(axes, n_lines(panel))
    for height, line in enumerate(lines[:_LINES]):
        _draw_line(axes, height, line, ends, diverging=panel.diverging)


def draw_document(axes: Axes, panel: Document) -> None:
    """Each sentence begins on a line of its own, with its weight on the left."""
    ends = limits((value for values in panel.values for value in values), diverging=False)
    heaviest = limits(panel.margin, diverging=False)
    _prepare(axes, n_lines(panel))
    height = 0
    for weight, labels, values in zip(panel.margin, panel.labels, panel.values, strict=True):
        if height >= _LINES:
            break
        place = fraction(weight, heaviest)
        colour = (255, 255, 255) if place is None else colour_at(_WEIGHTS, place)
        _draw_box(axes, (0.0, height), _MARGIN - 1.5, f"{weight:.3f}", colour)
        for line in _wrapped(labels, values, _MARGIN)[: _LINES - height]:
            _draw_line(axes, height, line, ends, diverging=False)
            height += 1


def word_colour(value: float, ends: tuple[float, float], *, diverging: bool) -> Colour:
    """The colour behind a word on white: none at zero, full at the ends."""
    place = fraction(value, ends)
    if place is None:
        return 255, 255, 255
    return colour_at(DIVERGING, place) if diverging else colour_at([(255, 255, 255), (0, 50, 110)], place)


def _prepare(axes: Axes, lines: int) -> None:
    axes.set(xlim=(0, _ROOM), ylim=(max(lines, 1), 0))
    axes.set_axis_off()
    if lines > _LINES:
        axes.text(0, lines - 0.5, f"the first {_LINES} lines; a page (.html) shows all of it", va="center", fontsize=8)


def _draw_line(axes: Axes, height: int, line: list[Placed], ends: tuple[float, float], *, diverging: bool) -> None:
    for left, wide, label, value in line:
        _draw_box(axes, (left, height), wide, label, word_colour(value, ends, diverging=diverging))


def _draw_box(axes: Axes, corner: tuple[float, float], wide: float, label: str, colour: Colour) -> None:
    left, height = corner
    axes.add_patch(_box(left, height + 0.08, wide, 0.84, [part / 255 for part in colour]))
    ink = "#ffffff" if is_dark(colour) else "#111111"
    text = label.replace("$", r"\$")
    axes.text(left + wide / 2, height + 0.5, text, ha="center", va="center", color=ink, fontsize=8)


def _box(left: float, top: float, wide: float, high: float, face: list[float]) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((left, top), wide, high, facecolor=face, linewidth=0)


def _wrapped(labels: Sequence[str], values: Sequence[float], first: float = 0.0) -> list[list[Placed]]:
    """Lay out words in lines, which begin at `first`."""
    lines: list[list[Placed]] = [[]]
    left = first
    for label, value in zip(labels, values, strict=True):
        shown = visible(label)
        shown = shown if len(shown) <= _LONGEST else shown[: _LONGEST - 1] + "…"
        wide = len(shown) + 1.4
        if lines[-1] and left + wide > _ROOM:
            lines.append([])
            left = first
        lines[-1].append((left, wide, shown, value))
        left += wide + 0.5
    return lines
