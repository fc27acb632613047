"""A matrix of weights as a coloured table in the terminal; without colours the shade is a character."""

from __future__ import annotations

from collections.abc import Sequence

from rich.markup import escape
from rich.table import Table

# Cividis at five points: even steps of lightness, the same for people who do not tell red from green.
_RAMP = [(0, 32, 77), (65, 77, 107), (124, 123, 120), (188, 175, 111), (255, 234, 70)]
_SHADES = " ░▒▓█"


def heat_map(
    weights: Sequence[Sequence[float]], rows: Sequence[str], columns: Sequence[str], *, title: str | None = None
) -> Table:
    """One row a query, one column a key; the colour runs from 0 to the largest weight."""
    table = Table(title=title, box=None, padding=0, pad_edge=False)
    table.add_column("", justify="right")
    for label in columns:
        table.add_column(escape(label), justify="center", min_width=7)
    largest = max((value for row in weights for value in row), default=0.0) or 1.0
    for label, row in zip(rows, weights, strict=True):
        table.add_row(escape(label) + "  ", *(_cell(value, value / largest) for value in row))
    return table


def _cell(value: float, share: float) -> str:
    share = min(max(share, 0.0), 1.0)
    red, green, blue = colour(share)
    ink = "black" if share > 0.5 else "white"
    return f"[{ink} on rgb({red},{green},{blue})] {_SHADES[round(share * 4)]}{value:5.2f}[/]"


def colour(share: float) -> tuple[int, int, int]:
    """A point of the ramp, 0 dark to 1 bright."""
    place = share * (len(_RAMP) - 1)
    low = min(int(place), len(_RAMP) - 2)
    part = place - low
    red, green, blue = (round(a + (b - a) * part) for a, b in zip(_RAMP[low], _RAMP[low + 1], strict=True))
    return red, green, blue
