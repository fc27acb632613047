"""The uncertainty of a counted share."""

from __future__ import annotations

import math

_Z = 1.959963984540054


def wilson(hits: int, count: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share; it assumes independent counts."""
    if count == 0:
        return 0.0, 1.0
    share, extra = hits / count, _Z**2 / count
    middle = (share + extra / 2) / (1 + extra)
    half = _Z * math.sqrt(share * (1 - share) / count + extra / (4 * count)) / (1 + extra)
    return max(0.0, middle - half), min(1.0, middle + half)
