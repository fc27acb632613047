"""The spread of a number over several seeds."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import stdev


def spread(values: Sequence[float]) -> float:
    """The standard deviation; 0 for a single value."""
    return stdev(values) if len(values) > 1 else 0.0
