"""A result as an SVG or PNG for papers and slides: panels below each other, heads as small multiples.

The same result gives the same bytes: no dates, ids from a fixed salt. In an SVG text stays text, so that a viewer can
show scripts and emoji that the font used here has no glyphs for.
"""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from regard.core.errors import UsageError
from regard.views.colours import DIVERGING, limits
from regard.views.labels import format_number, visible
from regard.views.photos import Photo, draw_photo, photo_height
from regard.views.points import draw_points
from regard.views.result import Curves, Document, Heads, Matrix, Panel, Points, Result, Table, Words
from regard.views.words import draw_document, draw_words, n_lines

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure
    from matplotlib.gridspec import SubplotSpec
    from matplotlib.text import Text

_WIDTH = 8.0
_MOST = 12  # heads and sites at most in a grid of small multiples
_FULL = "as wide as the picture"
_LETTERS = 110  # letters of a table's text that fit side by side
_LABELS = 60  # up to this many rows or columns, each gets a label
_LINES = ("#0060a8", "#c45a00", "#00785a", "#a0407e", "#5a5a5a", "#8a6d00", "#3f9bd6", "#7a3000")
_SETTINGS: dict[Any, Any] = {
    "svg.hashsalt": "regard",
    "svg.fonttype": "none",
    "font.family": ["DejaVu Sans"],
    "font.size": 9,
    "figure.constrained_layout.h_pad": 0.06,
    "text.usetex": False,
}


def write_picture(result: Result, path: str | Path) -> None:
    """Draw the heads, if there are any, with their first kind of weights, and all panels."""
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in (".svg", ".png"):
        raise UsageError("unknown picture format", got=repr(path.suffix), expected=".svg or .png")
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with rc_context(_SETTINGS), warnings.catch_warnings():
        # Emoji and some scripts have no glyph in matplotlib's font.
        warnings.filterwarnings("ignore", message="(?s).*[Gg]lyph .*missing from")
        heights = ([_grid_height(result.heads)] if result.heads else []) + [_height(panel) for panel in result.panels]
        figure = Figure(figsize=(_WIDTH, 0.6 + sum(heights or [0.4])), layout="constrained")
        FigureCanvasAgg(figure)
        title = figure.suptitle(_escaped(result.title), fontsize=12)
        if heights:
            places = iter(figure.add_gridspec(len(heights), 1, height_ratios=heights))
            if result.heads:
                _draw_heads(figure, next(places), result.heads)
            for panel in result.panels:
                _draw(figure, next(places), panel)
        _fix_layout(figure, title)
        metadata: dict[str, Any] = {"Date": None} if suffix == ".svg" else {"Software": None}
        figure.savefig(path, format=suffix[1:], dpi=150, metadata=metadata)


def _fix_layout(figure: Figure, title: Text) -> None:
    """Lay out once and round: the solver's last digits differ between runs, and would change the bytes."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for axes in figure.axes:
        left, bottom, wide, high = (round(float(side), 4) for side in axes.get_position().bounds)
        # Tables and texts have no axis labels, so they need no margin for them.
        axes.set_position((0.02, bottom, 0.96, high) if axes.get_label() == _FULL else (left, bottom, wide, high))
    title.set_position((0.5, round(title.get_position()[1], 4)))


def _height(panel: Panel) -> float:
    """In inches."""
    if isinstance(panel, Matrix) and panel.square:
        return 4.2
    if isinstance(panel, Matrix):
        return 1.6 + max(0.24 * len(panel.rows), 0.5) if len(panel.rows) <= _LABELS else 8.0
    if isinstance(panel, Curves):
        return 3.4 + 0.12 * len(panel.series)
    if isinstance(panel, Points):
        return 5.5
    if isinstance(panel, Photo):
        return photo_height(panel)
    if isinstance(panel, Table):
        return 0.7 + 0.24 * (len(panel.rows) + 1)
    return 0.9 + 0.3 * n_lines(panel)


def _draw(figure: Figure, place: SubplotSpec, panel: Panel) -> None:
    axes = figure.add_subplot(place, label=_FULL if isinstance(panel, Table | Words | Document | Photo) else "")
    axes.set_title(_escaped(panel.name), fontsize=10, loc="left")
    if isinstance(panel, Matrix):
        _draw_matrix(figure, axes, panel)
    elif isinstance(panel, Curves):
        _draw_curves(axes, panel)
    elif isinstance(panel, Table):
        _draw_table(axes, panel)
    elif isinstance(panel, Points):
        draw_points(axes, panel)
    elif isinstance(panel, Photo):
        draw_photo(axes, panel)
    elif isinstance(panel, Document):
        draw_document(axes, panel)
    else:
        draw_words(axes, panel)


def _draw_matrix(figure: Figure, axes: Axes, panel: Matrix) -> None:
    if not panel.rows or not panel.columns:
        axes.set_axis_off()
        return
    low, high = limits((value for row in panel.values for value in row), diverging=panel.diverging)
    values = [[math.nan if value is None else value for value in row] for row in panel.values]
    image = axes.imshow(values, cmap=_colour_map(panel.diverging), vmin=low, vmax=high, interpolation="nearest")
    axes.set_aspect("equal" if panel.square else "auto", anchor="W")
    columns = range(0, len(panel.columns), max(1, math.ceil(len(panel.columns) / _LABELS)))
    rows = range(0, len(panel.rows), max(1, math.ceil(len(panel.rows) / _LABELS)))
    names = [_label(panel.columns[j]) for j in columns]
    axes.set_xticks(list(columns), names, rotation=60, ha="left", rotation_mode="anchor", fontsize=8)
    axes.set_yticks(list(rows), [_label(panel.rows[i]) for i in rows], fontsize=8)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    if panel.square:  # the scale is beside the panel, not at the far edge
        figure.colorbar(image, cax=axes.inset_axes((1.03, 0.0, 0.04, 1.0)))
    else:
        figure.colorbar(image, ax=axes, fraction=0.04)


def _draw_curves(axes: Axes, panel: Curves) -> None:
    for place, name in enumerate(dict.fromkeys([*panel.series, *panel.bands])):
        # Dashes and markers tell lines apart where colours cannot be seen.
        colour, style = _LINES[place % 8], ("-", "--", "-.", ":")[(place + place // 8) % 4]
        points = panel.series.get(name, [])
        # A label that starts with an underscore would be left out of the legend.
        line = axes.plot([x for x, _ in points], [y for _, y in points], color=colour, linestyle=style, linewidth=1.6)
        line[0].set_label("\u200a" + _escaped(visible(name)))
        if 0 < len(points) <= 40:
            line[0].set(marker="osD^vPX*"[place % 8], markersize=3.5)
        if band := panel.bands.get(name):
            xs, lows, highs = zip(*band, strict=True)
            axes.fill_between(xs, lows, highs, color=colour, alpha=0.16, linewidth=0)
    for log, values, scale in (
        (panel.log_x, [x for points in panel.series.values() for x, _ in points], axes.set_xscale),
        (panel.log_y, [y for points in panel.series.values() for _, y in points], axes.set_yscale),
    ):
        if log and any(value > 0 for value in values):
            scale("log", nonpositive="mask")
    axes.set(xlabel=_escaped(panel.x), ylabel=_escaped(panel.y))
    axes.grid(axis="y", color="#dddddd", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    if panel.series or panel.bands:
        beside = len({*panel.series, *panel.bands}) > 4  # many names would cover the lines
        if beside:
            axes.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
        else:
            axes.legend(frameon=False, fontsize=8)


def _draw_table(axes: Axes, panel: Table) -> None:
    from matplotlib.transforms import Bbox

    axes.set_axis_off()
    if not panel.columns:
        return
    cells = [[_escaped(visible(x)) if isinstance(x, str) else format_number(x) for x in row] for row in panel.rows]
    texts = [[_escaped(_short(name, 32)) for name in panel.columns], *([_short(x, 32) for x in row] for row in cells)]
    table = axes.table(
        cellText=texts,
        colWidths=_column_widths(texts),
        bbox=Bbox.unit(),  # "upper left" would add a margin, and the right edge would lie beyond the figure
        cellLoc="left",
        edges="horizontal",
    )
    table.auto_set_font_size(False)
    table.set_fontsize(_font_size(texts))
    for (row, _), cell in table.get_celld().items():
        cell.set(edgecolor="#dddddd", height=1 / (len(panel.rows) + 1))
        cell.set_text_props(color="#555555" if row == 0 else "#111111")


def _column_widths(texts: list[list[str]]) -> list[float]:
    """Equal shares of the width, unless a text would not fit into its own: then by the longest text of each column."""
    longest = [max(map(len, column)) + 2 for column in zip(*texts, strict=True)]
    whole = max(_LETTERS, sum(longest))
    if max(longest) <= _LETTERS / len(longest):
        return [1 / len(longest)] * len(longest)
    spare = (whole - sum(longest)) / len(longest)
    return [(letters + spare) / whole for letters in longest]


def _font_size(texts: list[list[str]]) -> float:
    """Smaller letters for a table whose texts would not fit side by side."""
    letters = sum(max(map(len, column)) + 2 for column in zip(*texts, strict=True))
    return round(8 * min(1.0, _LETTERS / letters), 1)


def _draw_heads(figure: Figure, place: SubplotSpec, heads: Heads) -> None:
    kind = heads.kinds[0]
    sites = [(name, site.kinds[kind]) for name, site in heads.sites.items() if kind in site.kinds][:_MOST]
    count = max((min(weights.shape[0], _MOST) for _, weights in sites), default=1)
    rows = max(len(sites), 1)
    grid = place.subgridspec(rows + 1, count, height_ratios=[0.01, *[1.0] * rows])
    caption = figure.add_subplot(grid[0, :])
    caption.set_axis_off()
    caption.set_title(_escaped(f"{kind}: one row per site, one column per head, each on its own scale"), fontsize=9)
    signed = any(bool((weights < 0).any()) for _, weights in sites)
    for row, (name, weights) in enumerate(sites):
        for head in range(min(weights.shape[0], _MOST)):
            axes = figure.add_subplot(grid[row + 1, head])
            axes.set(xticks=[], yticks=[])
            values = weights[head].detach().float().cpu()
            peak = float(values.nan_to_num(0.0, 0.0, 0.0).abs().amax()) if values.numel() else 0.0
            low, high = (-peak if signed else 0.0), peak or 1.0
            if values.numel():
                axes.imshow(
                    _downsampled(values),
                    cmap=_colour_map(signed),
                    vmin=low,
                    vmax=high,
                    aspect="auto",
                    interpolation="nearest",
                )
            if row == 0:
                axes.set_title(str(head), fontsize=7)
            if head == 0:
                axes.set_ylabel(_label(name), fontsize=7, rotation=0, ha="right", va="center")


def _grid_height(heads: Heads | None) -> float:
    return 0.6 + 0.62 * min(len(heads.sites), _MOST) if heads else 0.0


def _downsampled(values: torch.Tensor) -> Any:
    """Reduce to at most 128 points per side, each the largest value that falls on it."""
    size = tuple(min(side, 128) for side in values.shape)
    if size == tuple(values.shape):
        return values.numpy()
    values = values.nan_to_num(0.0, 0.0, 0.0)[None]
    high = torch.nn.functional.adaptive_max_pool2d(values, size)[0]
    low = -torch.nn.functional.adaptive_max_pool2d(-values, size)[0]
    return torch.where(-low > high, low, high).numpy()


def _colour_map(diverging: bool) -> Colormap | str:
    from matplotlib.colors import LinearSegmentedColormap

    points = [[part / 255 for part in colour] for colour in DIVERGING]
    return LinearSegmentedColormap.from_list("regard", points) if diverging else "cividis"


def _label(label: str) -> str:
    return _escaped(_short(visible(label), 18))


def _short(label: str, longest: int) -> str:
    return label if len(label) <= longest else label[: longest - 1] + "…"


def _escaped(text: str) -> str:
    """Escape dollar signs, which would start a formula."""
    return text.replace("$", r"\$")
