"""Errors that a user can cause and fix.

Each error says in one line what is wrong, what was given, what was expected and how to fix it. The command line prints
this line and exits; in Python it is the exception's text. Invariants of the code itself are `assert`ed instead.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class RegardError(Exception):
    """Any error that a user can fix. `exit_code` is the exit code of the command line."""

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
    """An unknown name; near matches are suggested."""

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
    """A sequence that is longer than the model's number of positions."""


class WeightsError(RegardError, ValueError):
    """Stored weights that are missing, unexpected, of another shape, or damaged."""


class DataError(RegardError, ValueError):
    """Input data that cannot be used as it is."""
