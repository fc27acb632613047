"""Checks the shape annotations of attention/ and layers/ in the first calls of each test.

A check costs as much as a small layer. Shapes that go wrong do so early, so later calls of a test are not checked: long
decodings and trainings would otherwise spend half of their time on checks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from beartype import beartype
from jaxtyping import config

_CHECKS = 600  # two of them are one call: its arguments, and these with its result
_left = 0


def begin() -> None:
    """Check again, for another test."""
    global _left
    _left = _CHECKS
    config.update("jaxtyping_disable", False)


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """The type checker that jaxtyping's import hook applies."""
    inside = beartype(function)

    def call(*arguments: Any, **named: Any) -> Any:
        global _left
        _left -= 1
        if _left <= 0:
            config.update("jaxtyping_disable", True)
        return inside(*arguments, **named)

    return call
