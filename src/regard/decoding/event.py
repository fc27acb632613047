"""The events that a decoder returns."""

from __future__ import annotations

from dataclasses import dataclass

from regard.decoding.result import Hypothesis


@dataclass(frozen=True)
class Event:
    """A new token that will not change any more, or the end of a request.

    The tokens of a beam are certain only at its end. `copy` is the index among the independent samples of a request.
    """

    ticket: int
    token: int | None = None
    copy: int = 0
    results: list[Hypothesis] | None = None
    """The outputs, finished ones first, then by score; None while the request goes on."""
