"""The two colour scales of all views, chosen for colour-blind readers too.

Sequential: cividis, with even steps of lightness. Diverging: blue, white, orange, with white at zero; on a dark page
the middle is dark instead, so that zero does not stand out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Colour = tuple[int, int, int]

SEQUENTIAL: list[Colour] = [
    (0, 34, 78), (18, 53, 112), (59, 73, 108), (87, 93, 109), (112, 113, 115),
    (138, 134, 120), (165, 156, 116), (195, 179, 105), (225, 204, 85), (254, 232, 56),
]  # fmt: skip
DIVERGING: list[Colour] = [
    (8, 64, 129), (52, 120, 184), (140, 190, 224), (248, 248, 248), (253, 190, 120), (224, 112, 24), (140, 58, 4),
]  # fmt: skip
DIVERGING_DARK: list[Colour] = [
    (150, 205, 250), (66, 140, 205), (34, 72, 110), (32, 34, 40), (104, 58, 22), (200, 104, 28), (255, 182, 104),
]  # fmt: skip


def colour_at(scale: Sequence[Colour], fraction: float) -> Colour:
    """The colour at this fraction of the scale, from 0 to 1."""
    place = min(max(fraction, 0.0), 1.0) * (len(scale) - 1)
    low = min(int(place), len(scale) - 2)
    red, green, blue = (round(a + (b - a) * (place - low)) for a, b in zip(scale[low], scale[low + 1], strict=True))
    return red, green, blue


def is_dark(colour: Colour) -> bool:
    """Whether white text is more readable on it."""
    red, green, blue = colour
    return 0.299 * red + 0.587 * green + 0.114 * blue < 140


def limits(values: Iterable[float], *, diverging: bool) -> tuple[float, float]:
    """The values at the two ends of the scale: symmetric about zero if diverging, else from min(0, lowest)."""
    known = [value for value in values if value == value and abs(value) != float("inf")]
    low, high = min(known, default=0.0), max(known, default=0.0)
    if diverging:
        high = max(-low, high) or 1.0
        return -high, high
    low = min(low, 0.0)
    return low, high if high > low else low + 1.0


def fraction(value: float, ends: tuple[float, float]) -> float | None:
    """The position of a value between the ends, 0 to 1; None if it is not a number."""
    if value != value or abs(value) == float("inf"):
        return None
    return min(max((value - ends[0]) / (ends[1] - ends[0]), 0.0), 1.0)
