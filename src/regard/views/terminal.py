"""A result in the terminal, with rich: statements first, then each panel.

Colours mean the same as on a page; without colours, a shade character or the number replaces them. A panel that is too
large for a terminal is cut, with a line that says how to see all of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from rich import box
from rich.cells import cell_len, set_cell_size
from rich.console import RenderableType
from rich.table import Table as Grid
from rich.text import Text

from regard.views.colours import DIVERGING_DARK, SEQUENTIAL, colour_at, fraction, is_dark, limits
from regard.views.labels import format_number, visible, visible_line
from regard.views.photos import Photo, photo_lines
from regard.views.points import points_table
from regard.views.result import Curves, Document, Heads, Matrix, Panel, Points, Result, Table, Words

ROWS, COLUMNS, LINES = 40, 120, 120  # larger matrices are cut
_SHADES = " ░▒▓█"
_SPARKS = "▁▂▃▄▅▆▇█"
_TIGHT, _CELL, _WIDE, _LABEL = 4, 6, 10, 16
_UNITS = {0: "", 2: "in hundredths, ", 3: "in thousandths, ", 4: "in ten-thousandths, "}
_ALL = "--out page.html shows all of it"


def panels_for_terminal(result: Result, width: int = 80) -> list[RenderableType]:
    """The parts to print, in order; labels are text, never markup."""
    width = max(width, 20)
    shown: list[RenderableType] = [Text(visible_line(result.title), style="bold")]
    shown += [_bullet(visible_line(statement), width) for statement in result.statements]
    for panel in result.panels:
        shown += [Text(), Text(visible_line(panel.name), style="bold"), *_panel(panel, width)]
        if panel.note:
            shown.append(Text(visible_line(panel.note), style="dim"))
    if result.heads and (count := _count_heads(result.heads)) > 1:
        shown += [Text(), _heads(result.heads, count)]
    return shown


def _bullet(statement: str, width: int) -> Text:
    """A sentence with a hanging indent: its later lines begin below its first word."""
    lines = [""]
    for word in statement.split(" "):
        if lines[-1] and cell_len(lines[-1]) + cell_len(word) + 3 > width:
            lines.append("")
        lines[-1] += f" {word}" if lines[-1] else word
    return Text("• " + "\n  ".join(lines))


def _panel(panel: Panel, width: int) -> list[RenderableType]:
    if isinstance(panel, Matrix):
        return _matrix(panel, width)
    if isinstance(panel, Curves):
        return _curves(panel, width)
    if isinstance(panel, Table):
        return _table(panel, width)
    if isinstance(panel, Points):
        return _table(points_table(panel), width)
    if isinstance(panel, Document):
        return _document(panel)
    if isinstance(panel, Photo):
        return list(photo_lines(panel, width))
    return _words(panel)


def _matrix(panel: Matrix, width: int) -> list[RenderableType]:
    """As many columns as fit are side by side; the others follow below, unless that is too much to read."""
    rows, columns = [visible(x) for x in panel.rows[:ROWS]], [visible(x) for x in panel.columns[:COLUMNS]]
    ends = limits((value for row in panel.values for value in row), diverging=panel.diverging)
    power = _decimal_power(ends)
    left = min(max((cell_len(label) for label in rows), default=0), _LABEL) + 1
    cell = _cell_width(columns, width - left, tight=bool(power) and not panel.diverging)
    fit = max(1, (width - left) // cell)
    columns = columns[: fit * max(1, LINES // max(len(rows), 1))]
    shown: list[RenderableType] = []
    for start in range(0, len(columns), fit):
        grid = Grid(box=None, padding=0, pad_edge=False)
        grid.add_column("", width=left, no_wrap=True)
        for label in columns[start : start + fit]:
            grid.add_column(Text(_cut(label, cell - 1)), justify="center", width=cell, no_wrap=True)
        for label, row in zip(rows, panel.values, strict=False):
            cells = (
                _cell(value, ends, panel.diverging, power=power, width=cell)
                for value in row[: len(columns)][start : start + fit]
            )
            grid.add_row(Text(_align_right(_cut(label, left - 1), left - 1)), *cells)
        shown.append(grid)
    scale = f"{_UNITS[power]}colours from {_short_number(float(ends[0]))} to {_short_number(float(ends[1]))}"
    shown.append(Text(scale, style="dim"))
    if len(panel.rows) > len(rows) or len(panel.columns) > len(columns):
        size = f"{len(panel.rows)} rows and {len(panel.columns)} columns"
        shown.append(Text(f"the first {len(rows)} and {len(columns)} of {size}; {_ALL}", style="dim"))
    return shown


def _cell_width(labels: Sequence[str], width: int, *, tight: bool) -> int:
    """Wide enough for the labels if all columns fit, else narrower; a few long labels are cut."""
    lengths = sorted(cell_len(label) + 1 for label in labels) or [0]
    wide = min(max(_CELL, lengths[-1]), _WIDE)
    close = min(max(_TIGHT, lengths[len(lengths) * 9 // 10]), _CELL) if tight else _CELL
    return next((cell for cell in (wide, _CELL) if cell * len(labels) <= width), close)


def _decimal_power(ends: tuple[float, float]) -> int:
    """The power of ten for the numbers: values up to 1, such as weights, are in hundredths or smaller units."""
    size = max(-ends[0], ends[1])
    return 0 if size > 1.0 else next((power for power in (2, 3, 4) if size * 10**power >= 9.95), 0)


def _cell(value: float, ends: tuple[float, float], diverging: bool, *, power: int, width: int) -> Text:
    place = None if value is None else fraction(value, ends)
    if place is None:
        return Text("–".center(width))
    colour = colour_at(DIVERGING_DARK if diverging else SEQUENTIAL, place)
    strength = abs(2 * place - 1) if diverging else place
    forms = [f"{10**power * value:.0f}"] if power else [*(f"{value:.{n}g}" for n in (3, 2, 1)), f"{value:.0e}"]
    forms = [form.replace("e+0", "e").replace("e-0", "e-") for form in forms]
    figure = next((form for form in forms if len(form) < width), forms[-1][: width - 1])
    figure = "0" if figure == "-0" else figure
    return Text(f"{_SHADES[round(strength * 4)]}{figure:>{width - 1}}", style=_style(colour))


def _short_number(value: float | int | None) -> str:
    """Four significant digits; a page or --json gives more."""
    return format_number(value, 4)


def _style(colour: tuple[int, int, int]) -> str:
    red, green, blue = colour
    return f"{'white' if is_dark(colour) else 'black'} on rgb({red},{green},{blue})"


def _curves(panel: Curves, width: int) -> list[RenderableType]:
    grid = Grid(box=box.SIMPLE, pad_edge=False)
    for name in ("", "first", "last", "lowest", "highest", "points"):
        grid.add_column(name, justify="left" if not name else "right")
    spark = max(8, min(32, width - 62))
    grid.add_column("", no_wrap=True)
    for name, points in panel.series.items():
        ys = [y for _, y in points if y is not None and y == y]
        facts = [ys[0], ys[-1], min(ys), max(ys)] if ys else [None] * 4
        sparks = _sparkline(ys, spark)
        grid.add_row(
            Text(visible(name)), *(Text(_short_number(fact)) for fact in facts), Text(str(len(points))), Text(sparks)
        )
    xs = [x for points in panel.series.values() for x, _ in points]
    reach = f" from {_short_number(min(xs))} to {_short_number(max(xs))}" if xs else ""
    return [grid, Text(f"{visible_line(panel.y)} against {visible_line(panel.x)}{reach}", style="dim")]


def _sparkline(values: Sequence[float], width: int) -> str:
    """A line of block characters; each shows the mean of the values that share it."""
    if not values:
        return ""
    count = min(width, len(values))
    edges = [round(i * len(values) / count) for i in range(count + 1)]
    means = [sum(values[a:b]) / (b - a) for a, b in pairwise(edges)]
    low, high = min(means), max(means)
    reach = high - low
    if not 0 < reach < float("inf"):
        return _SPARKS[0] * count
    return "".join(_SPARKS[round((mean - low) / reach * (len(_SPARKS) - 1))] for mean in means)


def _table(panel: Table, width: int) -> list[RenderableType]:
    """Columns that do not fit follow below, after the first column again."""
    rows = [[visible(x) if isinstance(x, str) else _short_number(x) for x in row] for row in panel.rows[: 5 * ROWS]]
    names = [visible_line(name) for name in panel.columns]
    shown: list[RenderableType] = []
    for places in _blocks(names, rows, width):
        grid = Grid(box=box.SIMPLE, pad_edge=False)
        for place in places:
            figures = all(not isinstance(row[place], str) for row in panel.rows) and bool(rows)
            name = Text(names[place])
            grid.add_column(name, justify="right" if figures else "left", overflow="fold", no_wrap=place == 0)
        for row in rows:
            grid.add_row(*(Text(row[place]) for place in places))
        shown.append(grid)
    if len(panel.rows) > 5 * ROWS:
        shown.append(Text(f"the first {5 * ROWS} of {len(panel.rows)} rows; {_ALL}", style="dim"))
    return shown


def _blocks(names: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> list[list[int]]:
    """Which columns are side by side: each at least as wide as its longest word, wider for texts that wrap."""
    least = [
        max([0, *(cell_len(word) for word in name.split()), *(min(cell_len(row[place]), 24) for row in rows)]) + 3
        for place, name in enumerate(names)
    ]
    blocks: list[list[int]] = [[0] if names else []]
    for place in range(1, len(names)):
        if sum(least[other] for other in blocks[-1]) + least[place] > width and len(blocks[-1]) > 1:
            blocks.append([0])
        blocks[-1].append(place)
    return blocks


def _words(panel: Words) -> list[RenderableType]:
    """Each word on its colour; then the strongest with their numbers, for terminals without colours."""
    ends = limits(panel.values, diverging=panel.diverging)
    text = _coloured(panel.labels, panel.values, ends, panel.diverging)
    return [text, Text(f"strongest: {_strongest(panel.labels, panel.values)}", style="dim")]


def _document(panel: Document) -> list[RenderableType]:
    """Each sentence with its weight in the margin; then, for terminals without colours, the strongest words of the
    sentences with the largest weights."""
    ends = limits((value for values in panel.values for value in values), diverging=False)
    heaviest = limits(panel.margin, diverging=False)
    grid = Grid(box=None, padding=(0, 1), pad_edge=False)
    grid.add_column("", width=7, no_wrap=True)
    grid.add_column("")
    for weight, labels, values in list(zip(panel.margin, panel.labels, panel.values, strict=True))[:LINES]:
        grid.add_row(_cell(weight, heaviest, False, power=0, width=7), _coloured(labels, values, ends, False))
    order = sorted(range(len(panel.margin)), key=lambda number: -panel.margin[number])[:3]
    shown: list[RenderableType] = [grid]
    shown += [
        Text(f"sentence {n + 1}, strongest: {_strongest(panel.labels[n], panel.values[n])}", style="dim") for n in order
    ]
    if len(panel.margin) > LINES:
        shown.append(Text(f"the first {LINES} of {len(panel.margin)} sentences; {_ALL}", style="dim"))
    return shown


def _coloured(labels: Sequence[str], values: Sequence[float], ends: tuple[float, float], diverging: bool) -> Text:
    text = Text()
    for label, value in zip(labels, values, strict=True):
        place = None if value is None else fraction(value, ends)
        style = "" if place is None else _style(colour_at(DIVERGING_DARK if diverging else SEQUENTIAL, place))
        text.append(visible(label), style=style)
        text.append(" ")
    return text


def _strongest(labels: Sequence[str], values: Sequence[float]) -> str:
    known = [(value, visible(label)) for label, value in zip(labels, values, strict=True) if value == value]
    strongest = sorted(known, key=lambda pair: -abs(pair[0]))[:5]
    return ", ".join(f"{label} {_short_number(value)}" for value, label in strongest)


def _count_heads(heads: Heads) -> int:
    return sum(max(weights.shape[0] for weights in site.kinds.values()) for site in heads.sites.values())


def _heads(heads: Heads, count: int) -> Text:
    sites = f"{len(heads.sites)} {'site' if len(heads.sites) == 1 else 'sites'}"
    where = f"{count} heads at {sites} ({visible_line(', '.join(heads.kinds))})"
    return Text(f"{where}: --out page.html lets you look at each", style="dim")


def _cut(label: str, longest: int) -> str:
    """A label cut to this many terminal columns; a Chinese character or an emoji takes two."""
    return label if cell_len(label) <= longest else set_cell_size(label, longest - 1) + "…"


def _align_right(label: str, width: int) -> str:
    return " " * (width - cell_len(label)) + label
