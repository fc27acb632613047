"""Errors that a user can cause and mend.

Each says what is wrong, what was got, what was expected and the remedy, in one line: the command line prints that line
and exits, Python users see it as the exception's text. Invariants of the code itself are `assert`ed instead.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class RegardError(Exception):
    """Any error a user can mend. `exit_code` is what the command line leaves with."""

    exit_code = 1

    def __init__(self, what: str, *, got: object = None, expected: object = None, remedy: str | None = None) -> None:
        self.what, self.got, self.expected, self.remedy = what, got, expected, remedy
        facts = [f"{label} {fact}" for label, fact in (("got", got), ("expected", expected)) if fact is not None]
        text = what + (": " + ", ".join(facts) if facts else "")
        super().__init__(text + (f". {remedy}" if remedy else ""))


class UsageError(RegardError, ValueError):
    """The call itself is wrong: an unknown option, a value outside its range."""

    exit_code = 2


class UnknownName(UsageError):
    """A name that nothing answers to; near matches are suggested."""

    def __init__(self, kind: str, name: object, known: Iterable[str]) -> None:
        names = sorted(known)
        near = difflib.get_close_matches(str(name), names, n=1, cutoff=0.5)
        hint = f"Did you mean {near[0]!r}?" if near else None
        super().__init__(f"unknown {kind}", got=repr(name), expected="one of " + ", ".join(names), remedy=hint)


class ConfigError(UsageError):
    """A configuration with unknown keys or wrong values; all of them are reported together."""


class ShapeError(RegardError, ValueError):
    """Tensors whose shapes or types do not fit together."""


class LengthError(RegardError, ValueError):
    """A sequence longer than the model has positions for."""


class WeightsError(RegardError, ValueError):
    """Stored weights that are missing, unexpected, of another shape, or damaged."""


class DataError(RegardError, ValueError):
    """Input data that cannot be used as it is."""
