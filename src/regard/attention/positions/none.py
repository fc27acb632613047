"""No positions: self-attention then treats its input as a set, and permuting it permutes the output."""

from __future__ import annotations

from regard.attention.positions._scheme import Position


class NonePosition(Position):
    """Acts nowhere."""
