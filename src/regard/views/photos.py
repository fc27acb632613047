"""A picture with maps laid over it, one for each word: in a page, on a figure, and in the terminal.

A map has few cells (7 × 7, say). It is enlarged smoothly (bicubic) to the picture's size and scaled to its own largest
value; the picture stays bright where the map is high and dark where it is low. All copies are embedded, so a page needs
no other file.
"""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from rich.cells import cell_len, set_cell_size
from rich.text import Text

from regard.core.errors import ShapeError
from regard.views.labels import format_number, visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Pixels = NDArray[np.uint8]
Floats = NDArray[np.float64]
_DARK = 0.22  # brightness of the picture where the map is zero
_SIDE, _GAP, _ACROSS = 224, 14, 4  # pixels of a copy on a figure, between copies, and copies in a row
_LEAST = 7  # lines of a copy in the terminal
_SHADES = " ░▒▓█"


@dataclass(frozen=True, eq=False)
class Photo:
    """`picture` [H,W,3] bytes; `maps` has rows and columns of numbers for each label, none of them negative."""

    name: str
    picture: Pixels
    labels: list[str]
    maps: list[list[list[float]]]
    note: str = ""

    def __post_init__(self) -> None:
        if self.picture.ndim != 3 or self.picture.shape[2] != 3 or not self.picture.size:
            raise ShapeError(
                f"{self.name}: the picture is no picture", got=list(self.picture.shape), expected="[H,W,3]"
            )
        if len(self.maps) != len(self.labels):
            raise ShapeError(
                f"{self.name}: maps and labels differ in number", got=len(self.maps), expected=len(self.labels)
            )
        if any(np.asarray(each).ndim != 2 or not np.asarray(each).size for each in self.maps):
            raise ShapeError(f"{self.name}: a map is no matrix", expected="rows of equal length")

    def as_dict(self) -> dict[str, Any]:
        shown = {"name": self.name, "labels": list(self.labels), "note": self.note}
        maps = np.asarray(self.maps, dtype=np.float64).tolist()
        return {"kind": "photo", **shown, "picture": data_uri(self.picture), "maps": maps}


def smooth(cells: Sequence[Sequence[float]], size: tuple[int, int]) -> Floats:
    """A map enlarged to height and width, from 0 to 1 of its largest value."""
    values = np.nan_to_num(np.asarray(cells, dtype=np.float64)).clip(min=0)
    peak = values.max()
    scaled = Image.fromarray((values / peak if peak > 0 else values).astype(np.float32))
    large = np.asarray(scaled.resize((size[1], size[0]), Image.Resampling.BICUBIC), dtype=np.float64)
    return large.clip(0.0, 1.0)


def laid_over(picture: Pixels, cells: Sequence[Sequence[float]]) -> Pixels:
    """The picture, bright where the map is high."""
    light = _DARK + (1 - _DARK) * smooth(cells, picture.shape[:2])
    pixels: Pixels = (picture * light[..., None]).round().astype(np.uint8)
    return pixels


def data_uri(picture: Pixels) -> str:
    """The picture as text that a page or a JSON file can hold."""
    file = io.BytesIO()
    Image.fromarray(picture).save(file, format="PNG", optimize=False)
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


def photo_elements(panel: Photo) -> str:
    """For a page: the picture, then a copy for each label."""
    copies = [(visible(label), laid_over(panel.picture, cells)) for label, cells in _pairs(panel)]
    return '<div class="photos">{}</div>'.format(
        "".join(
            f'<figure><img alt="{html.escape(label, quote=True)}" src="{data_uri(copy)}">'
            f'<figcaption dir="auto">{html.escape(label)}</figcaption></figure>'
            for label, copy in [("the picture", panel.picture), *copies]
        )
    )


def photo_height(panel: Photo) -> float:
    """In inches, for a figure eight inches wide."""
    return 0.5 + 2.15 * -(-(len(panel.labels) + 1) // _ACROSS)


def draw_photo(axes: Axes, panel: Photo) -> None:
    """All copies as one image, with their labels above them."""
    side, step = _SIDE, _SIDE + _GAP
    small = np.asarray(Image.fromarray(panel.picture).resize((side, side), Image.Resampling.BICUBIC))
    shown = [("", small), *((label, laid_over(small, cells)) for label, cells in _pairs(panel))]
    rows, top = -(-len(shown) // _ACROSS), 2 * _GAP
    whole = np.full((rows * (step + top), _ACROSS * step, 3), 255, np.uint8)
    for place, (label, copy) in enumerate(shown):
        down, right = place // _ACROSS * (step + top) + top, place % _ACROSS * step
        whole[down : down + side, right : right + side] = copy
        axes.text(right, down - 6, visible(label)[:24].replace("$", r"\$") if label else "", fontsize=9, va="bottom")
    axes.imshow(whole, interpolation="nearest")
    axes.set_axis_off()


def photo_lines(panel: Photo, width: int) -> list[Text]:
    """For the terminal: twice as many characters as lines, coloured as the picture, shaded as the map."""
    if not panel.maps:
        return []
    rows, columns = np.asarray(panel.maps[0]).shape
    larger = -(-_LEAST // rows)  # a small map gets several lines per cell, or nothing could be seen
    rows, wide = rows * larger, 2 * columns * larger
    small = np.asarray(Image.fromarray(panel.picture).resize((wide, rows), Image.Resampling.BOX))
    fit, lines = max(1, width // (wide + 2)), list[Text]()
    for start in range(0, len(panel.maps), fit):
        blocks = [_block(label, cells, small) for label, cells in list(_pairs(panel))[start : start + fit]]
        for parts in zip_longest(*blocks):
            lines.append(Text("  ").join(part or Text(" " * wide) for part in parts))
        lines.append(Text())
    return lines


def _block(label: str, cells: Sequence[Sequence[float]], small: Pixels) -> list[Text]:
    """A label and the rows of its copy."""
    rows, wide = small.shape[:2]
    light, name = smooth(cells, (rows, wide)), visible(label)
    peak = f" {format_number(float(np.nanmax(np.asarray(cells, dtype=np.float64))), 2)}"
    title = Text(set_cell_size(name, wide - len(peak)) if cell_len(name) > wide - len(peak) else name)
    title.append(peak, style="dim")
    title.pad_right(max(0, wide - title.cell_len))
    lines = [title]
    for row in range(rows):
        line = Text()
        for column in range(wide):
            red, green, blue = (int(part) for part in small[row, column])
            line.append(_SHADES[round(4 * light[row, column])], style=f"white on rgb({red},{green},{blue})")
        lines.append(line)
    return lines


def _pairs(panel: Photo) -> list[tuple[str, list[list[float]]]]:
    return list(zip(panel.labels, panel.maps, strict=True))
