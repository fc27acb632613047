"""Declares what a loaded model can do: a method marked with `@verb` is one of its verbs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from regard.core.errors import UsageError

Function = TypeVar("Function", bound=Callable[..., Any])


class NoSuchVerb(UsageError, AttributeError):
    """The model does not have the requested verb; for `hasattr` this is a missing attribute."""


def verb(needs: str) -> Callable[[Function], Function]:
    """Mark a method as a verb; `needs` names the kind of model that has it, for errors: "a language model"."""

    def mark(function: Function) -> Function:
        function.verb_needs = needs  # type: ignore[attr-defined]
        return function

    return mark


def verbs_of(kind: type) -> dict[str, str]:
    """The verbs of a class, and what each needs. An overridden verb stays a verb."""
    verbs: dict[str, str] = {}
    for parent in kind.__mro__:
        for name, member in vars(parent).items():
            if hasattr(member, "verb_needs"):
                verbs.setdefault(name, member.verb_needs)
    return dict(sorted(verbs.items()))
