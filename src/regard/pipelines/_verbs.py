"""What a loaded model can do is declared where it is defined: a method marked with `@verb` is one of its verbs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from regard.core.errors import UsageError

Function = TypeVar("Function", bound=Callable[..., Any])


class NoSuchVerb(UsageError, AttributeError):
    """The model cannot do what was asked of it; `hasattr` sees that as any missing attribute."""


def verb(needs: str) -> Callable[[Function], Function]:
    """A method is a verb; `needs` says what model has it, for the error of those that do not: "a language model"."""

    def mark(function: Function) -> Function:
        function.verb_needs = needs  # type: ignore[attr-defined]
        return function

    return mark


def verbs_of(kind: type) -> dict[str, str]:
    """The verbs of a class, and what each needs. A verb that a subclass overrides stays one."""
    verbs: dict[str, str] = {}
    for parent in kind.__mro__:
        for name, member in vars(parent).items():
            if hasattr(member, "verb_needs"):
                verbs.setdefault(name, member.verb_needs)
    return dict(sorted(verbs.items()))
