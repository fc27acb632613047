"""What comes out of a decoder."""

from __future__ import annotations

from dataclasses import dataclass

from regard.decoding.result import Hypothesis


@dataclass(frozen=True)
class Event:
    """A token that is certain from now on, or the end of a request.

    A beam's tokens are certain only at its end; the independent draws of a request are told apart by `copy`.
    """

    ticket: int
    token: int | None = None
    copy: int = 0
    results: list[Hypothesis] | None = None
    """The outputs, finished ones first, then by score; None while the request goes on."""
