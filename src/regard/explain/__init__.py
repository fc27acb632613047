"""Looking inside: one file a method, each a function of the file's name. A trace goes in, a result comes out.

    trace = regard.trace(model, "The cat sat.", value_path=True)
    regard.explain.effective(trace).save("effective.html")

A method whose first parameter is `trace` looks at one run; `model`: at a loaded model; neither: at nothing but its
options. `NEEDS` in a method's file says what its trace must hold.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from regard.core import lookup
from regard.core.errors import UnknownName
from regard.explain._record import record
from regard.explain._subject import Subject
from regard.explain._trace import Site, Trace

__all__ = ["Site", "Subject", "Trace", "method", "methods", "needs", "record"]


def methods() -> tuple[str, ...]:
    """The methods there are, by the folder's listing."""
    return lookup.names(__name__)


def method(name: str) -> Callable[..., Any]:
    """The function of a method."""
    if name not in methods():
        raise UnknownName("method", name, methods())
    found: Callable[..., Any] = getattr(importlib.import_module(f"{__name__}.{name}"), name)
    return found


def needs(name: str) -> dict[str, Any]:
    """What a method's trace must hold: options of `record`."""
    return dict(getattr(importlib.import_module(f"{__name__}.{name}"), "NEEDS", {}))


# `regard.explain.maps` is the function, as `regard.explain.maps.maps` would be: importing a file puts the module there.
for _name in methods():
    globals()[_name] = method(_name)
