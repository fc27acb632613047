"""Whether a metric should be high or low. Each metric says so itself; NaN is never better than anything."""

from __future__ import annotations

import math
from typing import Literal

Direction = Literal["higher", "lower"]


def better(value: float, best: float | None, direction: Direction) -> bool:
    """Whether `value` beats the best so far; any number beats None and NaN."""
    if math.isnan(value):
        return False
    if best is None or math.isnan(best):
        return True
    return value > best if direction == "higher" else value < best
