"""Where a model looks in an image, laid over the image: one picture for each word of a caption (Xu et al. 2015).

The weights are those of the last site that looks at the image, the mean of its heads or one head. A Vision Transformer
has no words: the picture is that of its first token. A model that answers a question has a picture for each look at the
image; if it also looks at exemplars, they are shown beside it in the same way.
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
    """One picture for each word, or for each look at the image, bright where the model looked."""
    look = _over_image(trace, sites, row)
    if head is not None and not 0 <= head < len(look.weights):
        raise UsageError("no such head", got=head, expected=f"0 to {len(look.weights) - 1}")
    if most < 1:
        raise UsageError("most must be positive", got=most, expected="1 or more")
    words = (look.queries[:1] if looks_at_itself(look.site) else look.queries)[:most]
    maps, (height, width) = _maps(trace, look, head, len(words)), trace.grids[look.site.keys]
    heads = f", head {head}" if head is not None else "" if len(look.weights) == 1 else ", mean of its heads"
    picture = trace.live().pictures[row]
    panel = Photo(look.name + heads, picture, words, [numbers(each) for each in maps], _NOTE)
    beside = _beside(trace, row, head, most)
    rows = [_peak(word, each) for word, each in zip(words, maps, strict=True)]
    unit = _unit(look)
    columns = [unit, "row", "column", "weight there", "cells with half of the weight"]
    return Result(
        "photo",
        f"Where {trace.model} looks: {looked_at(trace, row)}",
        [panel, *beside, Table(f"The cell with the largest weight, by {unit}", columns, [list(each) for each in rows])],
        [*answered(trace, row), f"{_sharpest(rows, unit)}; the image has {height} × {width} cells."],
        {
            "words": words,
            "maps": [each.tolist() for each in maps],
            "output": trace.output,
            **({"beside": {other.name: other.maps for other in beside}} if beside else {}),
        },
    )


_NOTE = "the image is shown as the model sees it; each copy is scaled to its own largest weight"
_Peak = tuple[str, int, int, float, int]


def _unit(look: Look) -> str:
    """What a picture belongs to: a word, a token of the image, or a look at it."""
    return "token" if looks_at_itself(look.site) else "look" if look.site.queries == "hop" else "word"


def _maps(trace: Trace, look: Look, head: int | None, count: int) -> list[Tensor]:
    """The weights of the first `count` queries, as rows and columns of cells."""
    height, width = trace.grids[look.site.keys]
    seen_QK = look.weights[head] if head is not None else look.weights.mean(0)
    return [seen_K[-height * width :].reshape(height, width) for seen_K in seen_QK[:count]]


def _beside(trace: Trace, row: int, head: int | None, most: int) -> list[Photo]:
    """A panel for each image, other than its input, that the model looked at."""
    panels = []
    for side, other in trace.live().beside.items():
        for look in (look for name in trace.sites for look in trace.looks(name, row) if look.site.keys == side):
            words = look.queries[:most]
            maps = [numbers(each) for each in _maps(trace, look, head, len(words))]
            panels.append(Photo(other.texts[row], other.pictures[row], words, maps, _NOTE))
    return panels


def _over_image(trace: Trace, sites: str, row: int) -> Look:
    if not trace.grids:
        raise UsageError("photo shows where a model looks in an image", got=f"a {trace.model} that reads no image")
    beside = trace.subject.beside if trace.subject is not None else {}
    looks = [look for look in looked(trace, sites, row) if look.site.keys in trace.grids.keys() - beside.keys()]
    if not looks:
        raise UsageError("none of these sites looks at the image", got=sites)
    if not trace.live().pictures:
        raise UsageError("the image itself is not known", remedy="Use --method maps.")
    return looks[-1]


def _peak(word: str, cells: Tensor) -> _Peak:
    """The cell with the largest weight, and the smallest number of cells that hold half of the weight."""
    place = int(cells.argmax())
    sums = cells.flatten().sort(descending=True).values.cumsum(0)
    half = int((sums < 0.5 * sums[-1]).sum()) + 1
    return word, place // cells.shape[1], place % cells.shape[1], float(cells.max()), half


def _sharpest(rows: list[_Peak], unit: str) -> str:
    word, _, _, weight, half = min(rows, key=lambda each: each[4])
    cells = "1 cell" if half == 1 else f"{half} cells"
    which = f"The sharpest look is {'' if unit == 'look' else 'that of '}{word!r}"
    return f"{which}: half of its weight is on {cells} (largest {weight:.0%})"
