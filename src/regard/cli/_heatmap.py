"""A matrix of weights as a coloured table in the terminal; without colours the shade is a character."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Group
from rich.markup import escape
from rich.table import Table

# Cividis at five points: even steps of lightness, the same for people who do not tell red from green.
_RAMP = [(0, 32, 77), (65, 77, 107), (124, 123, 120), (188, 175, 111), (255, 234, 70)]
_SHADES = " ░▒▓█"
_CELL, _LABEL = 5, 16


def heat_map(
    weights: Sequence[Sequence[float]], rows: Sequence[str], columns: Sequence[str], *, width: int = 80
) -> Group:
    """One row a query, one column a key, in hundredths; the colour runs from 0 to the largest weight.

    As many columns as fit `width` stand side by side; the rest follow below.
    """
    largest = max((value for row in weights for value in row), default=0.0) or 1.0
    left = min(max((cell_len(label) for label in rows), default=0), _LABEL) + 1
    fit = max(1, (width - left) // _CELL)
    panels = []
    for start in range(0, max(len(columns), 1), fit):
        table = Table(box=None, padding=0, pad_edge=False)
        table.add_column("", justify="right", width=left, no_wrap=True)
        for label in columns[start : start + fit]:
            table.add_column(escape(label), justify="center", width=_CELL, no_wrap=True, overflow="crop")
        for label, row in zip(rows, weights, strict=True):
            cells = (_cell(value, value / largest) for value in row[start : start + fit])
            table.add_row(escape(label) + " ", *cells)
        panels.append(table)
    return Group(*panels)


def _cell(value: float, share: float) -> str:
    share = min(max(share, 0.0), 1.0)
    red, green, blue = colour(share)
    ink = "black" if share > 0.5 else "white"
    return f"[{ink} on rgb({red},{green},{blue})] {_SHADES[round(share * 4)]}{100 * value:3.0f}[/]"


def colour(share: float) -> tuple[int, int, int]:
    """A point of the ramp, 0 dark to 1 bright."""
    place = share * (len(_RAMP) - 1)
    low = min(int(place), len(_RAMP) - 2)
    part = place - low
    red, green, blue = (round(a + (b - a) * part) for a, b in zip(_RAMP[low], _RAMP[low + 1], strict=True))
    return red, green, blue
