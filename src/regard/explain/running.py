"""`regard.trace`, and the running of methods on models, on traces or without either, with checked options.

A method's file says what it needs as its first argument (`LOOKS_AT`) and what its trace must hold (`NEEDS`). Its
options are the keyword arguments of its function; their types say how command-line words are read.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_type_hints

from pydantic import TypeAdapter, ValidationError

from regard.core import lookup
from regard.core.errors import ConfigError, UnknownName, UsageError
from regard.explain.recording import record
from regard.explain.traces import Trace
from regard.views.result import Result, output_file

METHODS = "regard.explain.methods"
LooksAt = Literal["trace", "model"]


@dataclass(frozen=True)
class Option:
    """A keyword argument of a method: its type, and its default if it has one."""

    name: str
    type: Any
    default: Any
    needed: bool

    def parsed(self, word: str) -> Any:
        """Read a command-line word as a value of the option's type."""
        if word.lower() == "none" and _accepts(self.type, None):
            return None
        try:
            return TypeAdapter(self.type).validate_strings(word)
        except ValidationError:
            kind = getattr(self.type, "__name__", None) if isinstance(self.type, type) else str(self.type)
            flag = self.name.replace("_", "-")
            raise ConfigError(f"--{flag} has an invalid value", got=word, expected=kind) from None

    def usage(self) -> str:
        word = f"--{self.name.replace('_', '-')}"
        if self.needed:
            return f"{word} … (needed)"
        return f"{word} …" if self.default is None else f"{word} {self.default}".lower()


@dataclass(frozen=True)
class Method:
    """A method and its options."""

    name: str
    function: Callable[..., Result]
    looks_at: LooksAt | None
    needs: Mapping[str, Any]
    """What its trace must hold, as options of `record`."""
    options: Mapping[str, Option]

    @property
    def summary(self) -> str:
        return (inspect.getdoc(self.function) or "").split("\n", 1)[0]

    def check(self, options: Mapping[str, Any]) -> None:
        """Refuse unknown options and missing required ones."""
        if unknown := sorted(set(options) - set(self.options)):
            raise UnknownName(f"option of {self.name}", unknown[0], self.options)
        for name, option in self.options.items():
            if option.needed and name not in options:
                raise UsageError(
                    f"{self.name} needs --{name.replace('_', '-')}",
                    remedy="regard explain --methods describes it.",
                )

    def parsed(self, words: Mapping[str, str]) -> dict[str, Any]:
        """Parse options as they are written on a command line."""
        options = {}
        for flag, word in words.items():
            name = flag.replace("-", "_")
            if name not in self.options:
                raise UnknownName(f"option of {self.name}", flag, [known.replace("_", "-") for known in self.options])
            options[name] = self.options[name].parsed(word)
        return options


def method_names() -> tuple[str, ...]:
    """The names of all methods, from the folder's listing."""
    return lookup.names(METHODS)


@functools.cache
def find_method(name: str) -> Method:
    """A method by name; imports its file."""
    if name not in method_names():
        raise UnknownName("method", name, method_names())
    module = importlib.import_module(f"{METHODS}.{name}")
    function = getattr(module, name)
    types = get_type_hints(function)
    options = {
        key: Option(key, types[key], parameter.default, parameter.default is parameter.empty)
        for key, parameter in inspect.signature(function).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY
    }
    return Method(name, function, module.LOOKS_AT, dict(getattr(module, "NEEDS", {})), options)


def trace(
    model: Any,
    inputs: Any,
    target: Any = None,
    *,
    sites: str | Sequence[str] = "*",
    weights: bool = True,
    hidden: bool = True,
    value_path: bool = False,
    gradients: bool = False,
    **search: Any,
) -> Trace:
    """Run a loaded model once and keep what it did: tokens, attention weights by site, hidden states, its answer.

    `inputs` is a text, an image or a list of them. `target` is a translation, a second text, or the continuation of a
    prompt; without one, a translator translates first (`search` are its options) and the winning beam is traced.
    `sites` are names such as "encoder.3.self", whole layers ("encoder.3") or patterns ("decoder.*.cross").
    """
    subject = model.subject(inputs, target, **search)
    return record(subject, sites=sites, weights=weights, hidden=hidden, value_path=value_path, gradients=gradients)


def explain(model: Any, inputs: Any = None, target: Any = None, /, *, method: str = "maps", **options: Any) -> Result:
    """Run one method on a loaded model and its inputs, on a `Trace`, or without either if it needs none.

    The first three arguments are positional only, so that a method's option may have the same name.
    """
    chosen = find_method(method)
    chosen.check(options)
    if chosen.looks_at is None:
        return chosen.function(**options)
    if chosen.looks_at == "model":
        if isinstance(model, Trace) or model is None:
            raise UsageError(f"{method} needs a model", got="a trace" if model is not None else "none")
        return chosen.function(model, **options)
    if isinstance(model, Trace):
        return chosen.function(model, **options)
    if inputs is None and getattr(model, "accepts", True):  # others say themselves that they read nothing
        raise UsageError(f"{method} explains one run: it needs a text or an image", got="neither")
    asked = {"sites": options["sites"]} if "sites" in options else {}
    return chosen.function(trace(model, inputs, target, **{**chosen.needs, **asked}), **options)


def load_trace(path: str | Path) -> Trace:
    """Read a trace from its file and check that its parts fit together."""
    return Trace.load(path)


def result_file(name: str) -> Path:
    """Check the name of a file for a result or a trace."""
    return output_file(name, also=(".trace",))


def _accepts(kind: Any, value: Any) -> bool:
    try:
        TypeAdapter(kind).validate_python(value, strict=True)
    except ValidationError:
        return False
    return True
