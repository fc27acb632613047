"""Where a model looks in an image, laid over the image: one picture for each word of a caption (Xu et al. 2015).

The weights are those of the last site that looks at the image, the mean of its heads or one head. A Vision Transformer
has no words: the picture is that of its first token.
"""

from __future__ import annotations

from torch import Tensor

from regard.core.errors import UsageError
from regard.explain.chosen import answered, looked, looked_at, looks_at_itself, numbers
from regard.explain.traces import Look, Trace
from regard.views.photos import Photo
from regard.views.result import Result, Table

LOOKS_AT = "trace"
NEEDS = {"hidden": False}


def photo(trace: Trace, *, sites: str = "*", head: int | None = None, row: int = 0, most: int = 30) -> Result:
    """One picture for each word, bright where the model looked when it wrote the word."""
    look = _over_image(trace, sites, row)
    if head is not None and not 0 <= head < len(look.weights):
        raise UsageError("no such head", got=head, expected=f"0 to {len(look.weights) - 1}")
    if most < 1:
        raise UsageError("most must be positive", got=most, expected="1 or more")
    seen_QK = look.weights[head] if head is not None else look.weights.mean(0)
    words = (look.queries[:1] if looks_at_itself(look.site) else look.queries)[:most]
    height, width = trace.grids[look.site.keys]
    maps = [seen_K[-height * width :].reshape(height, width) for seen_K in seen_QK[: len(words)]]
    which = f"head {head}" if head is not None else "its head" if len(look.weights) == 1 else "mean of its heads"
    picture = trace.live().pictures[row]
    panel = Photo(f"{look.name}, {which}", picture, words, [numbers(each) for each in maps], _NOTE)
    rows = [_peak(word, each) for word, each in zip(words, maps, strict=True)]
    columns = ["word", "row", "column", "weight there", "cells with half of the weight"]
    return Result(
        "photo",
        f"Where {trace.model} looks: {looked_at(trace, row)}",
        [panel, Table("The cell that each word looks at most", columns, [list(each) for each in rows])],
        [*answered(trace, row), f"{_sharpest(rows)}; the image has {height} × {width} cells."],
        {"words": words, "maps": [each.tolist() for each in maps], "output": trace.output},
    )


_NOTE = "the first picture is what the model sees; each copy is scaled to its own largest weight"
_Peak = tuple[str, int, int, float, int]


def _over_image(trace: Trace, sites: str, row: int) -> Look:
    if not trace.grids:
        raise UsageError("photo shows where a model looks in an image", got=f"a {trace.model} that reads no image")
    looks = [look for look in looked(trace, sites, row) if look.site.keys in trace.grids]
    if not looks:
        raise UsageError("none of these sites looks at the image", got=sites)
    if not trace.live().pictures:
        raise UsageError("the image itself is not known", remedy="Use --method maps.")
    return looks[-1]


def _peak(word: str, cells: Tensor) -> _Peak:
    """The cell with the largest weight, and how many of the largest make up half of all."""
    place = int(cells.argmax())
    sums = cells.flatten().sort(descending=True).values.cumsum(0)
    half = int((sums < 0.5 * sums[-1]).sum()) + 1
    return word, place // cells.shape[1], place % cells.shape[1], float(cells.max()), half


def _sharpest(rows: list[_Peak]) -> str:
    word, _, _, weight, half = min(rows, key=lambda each: each[4])
    cells = "1 cell" if half == 1 else f"{half} cells"
    return f"The sharpest look is that of {word!r}: half of its weight is on {cells} (largest {weight:.0%})"
