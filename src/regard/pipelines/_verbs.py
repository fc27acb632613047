"""Declares what a loaded model can do: a method marked with `@verb` is one of its verbs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from regard.core.errors import UsageError

Function = TypeVar("Function", bound=Callable[..., Any])


class NoSuchVerb(UsageError, AttributeError):
    """The model does not have the requested verb; for `hasattr` this is a missing attribute."""


def verb(needs: str, *, command: bool = True) -> Callable[[Function], Function]:
    """Mark a method as a verb; `needs` names the kind of model that has it, for errors: "a language model".

    `command` is False for a verb of Python alone."""

    def mark(function: Function) -> Function:
        function.verb_needs, function.verb_command = needs, command  # type: ignore[attr-defined]
        return function

    return mark


def verbs_of(kind: type, *, commands: bool = False) -> dict[str, str]:
    """The verbs of a class, and what each needs; with `commands`, only those of the command line. An overridden verb
    stays a verb."""
    verbs: dict[str, str] = {}
    for parent in kind.__mro__:
        for name, member in vars(parent).items():
            if hasattr(member, "verb_needs") and (member.verb_command or not commands):
                verbs.setdefault(name, member.verb_needs)
    return dict(sorted(verbs.items()))
