"""Finds a variant by its file name: `find("regard.attention.scores", "scaled_dot")` returns the class `ScaledDot` of
`scores/scaled_dot.py`.

The class name may end in the folder's kind, and that form is tried first: `positions/none.py` defines `NonePosition`,
`jobs/translation.py` defines `TranslationJob`.

To add a variant, add a file. Only names in the folder listing are ever imported, so a name that comes from a
configuration or a request cannot reach any other module.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
from typing import Any

from regard.core.errors import UnknownName, UsageError


@functools.cache
def names(package: str) -> tuple[str, ...]:
    """The names of the variants in a folder; files that begin with an underscore are not variants."""
    path = importlib.import_module(package).__path__
    return tuple(sorted(module.name for module in pkgutil.iter_modules(path) if not module.name.startswith("_")))


@functools.cache
def find(package: str, name: str) -> type[Any]:
    """The class of file `name`: the file's name in camel case, with or without the folder's kind at its end."""
    if name not in names(package):
        raise UnknownName(_kind(package), name, names(package))
    module = importlib.import_module(f"{package}.{name}")
    camel = "".join(part.capitalize() for part in name.split("_"))
    variant = getattr(module, camel + _kind(package).capitalize(), None) or getattr(module, camel, None)
    assert isinstance(variant, type), f"{package}.{name} must define a class named {camel}"
    return variant


def build(package: str, name: str, **offers: Any) -> Any:
    """Make the variant `name`, passing only the offered arguments that its constructor takes.

    All variants of a folder get the same offers: `dot` takes none of `d_query`, `d_key`, `max_keys`; `location` takes
    two of them. A required argument that is not offered is a usage error.
    """
    variant = find(package, name)
    parameters = inspect.signature(variant).parameters
    given = {key: value for key, value in offers.items() if key in parameters and value is not None}
    named = {key: p for key, p in parameters.items() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}
    missing = [key for key, p in named.items() if p.default is p.empty and key not in given]
    if missing:
        call = f"{variant.__name__}({', '.join(f'{key}=…' for key in missing)})"
        raise UsageError(
            f"{_kind(package)} {name!r} has weights of its own and needs {', '.join(missing)}",
            remedy=f"Make it once with {package}.{name}.{call} and pass it instead of the name.",
        )
    return variant(**given)


def _kind(package: str) -> str:
    return package.rsplit(".", 1)[-1].removesuffix("s")
