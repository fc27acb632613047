"""How a model of ours appears in another library's folder: its configuration and its parameter names, both ways.

A model file states a `Foreign`; reading and writing go through the same tables, so that they cannot drift apart. Names
of configuration fields are a `FieldMap`, names of parameters a `KeyMap`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from regard.core.errors import ConfigError, UnknownName
from regard.core.keymap import KeyMap

ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
    "quick_gelu": "quick_gelu",
    "tanh": "tanh",
}
"""Their names of activations → ours; where several mean the same, the first is written."""

_MISSING = object()


@dataclass(frozen=True)
class Field:
    """One field: its two names, what it is where a folder leaves it out, and the values that are called otherwise."""

    ours: str
    theirs: str
    default: Any = _MISSING
    values: Mapping[Any, Any] | None = None

    def read(self, config: Mapping[str, Any]) -> Any:
        value = config.get(self.theirs, self.default)
        if value is _MISSING:
            raise ConfigError(f"config.json lacks {self.theirs}", remedy="Copy or download it again.")
        if self.values is None:
            return value
        if value not in self.values:
            known = ", ".join(str(name) for name in self.values)
            raise ConfigError(f"config.json: {self.theirs} is not supported", got=value, expected=f"one of {known}")
        return self.values[value]

    def write(self, value: Any) -> Any:
        if self.values is None:
            return value
        return next(theirs for theirs, ours in self.values.items() if ours == value)


@dataclass(frozen=True)
class FieldMap:
    """All fields of a format. `fixed` are fields of theirs that we know in one value only: any other is refused."""

    fields: Sequence[Field]
    fixed: Mapping[str, Any] = field(default_factory=dict)

    def to_ours(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Their configuration → the options of ours; all unsupported values are named together."""
        odd = [f"{name} {config[name]!r}" for name, only in self.fixed.items() if config.get(name, only) != only]
        if odd:
            expected = ", ".join(f"{name} {only!r}" for name, only in self.fixed.items())
            raise ConfigError("config.json asks for what is not supported", got=", ".join(odd), expected=expected)
        return {one.ours: one.read(config) for one in self.fields}

    def to_theirs(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Options of ours → their configuration."""
        return {**self.fixed, **{one.theirs: one.write(options[one.ours]) for one in self.fields}}


@dataclass(frozen=True)
class Foreign:
    """A model's place in the other library."""

    model_types: tuple[str, ...]
    """Values of `model_type` that this model answers to; the first is written."""
    prefix: str
    """What stands before the names of the bare model inside one with a head; folders of bare models leave it out.
    `{model_type}` in it is filled in."""
    heads: Sequence[tuple[str, Mapping[str, Any]]]
    """Their classes and the options of ours that each means; the first that fits is read, and written."""
    read: Callable[[Mapping[str, Any]], dict[str, Any]]
    """Their configuration → our options, without the head."""
    write: Callable[[Any], dict[str, Any]]
    """Our configuration → theirs."""
    keys: Callable[[Any], KeyMap]
    """The table of parameter names; it may know more names than one head uses."""
    bare: tuple[str, ...] = ()
    """Their classes without a head, whose names lack the prefix."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Ends of names that old files use → those of today."""

    def head(self, architecture: str) -> Mapping[str, Any]:
        """The options of ours that their class means."""
        known = dict(reversed(self.heads))
        if architecture not in known:
            raise UnknownName("architecture in config.json", architecture, known)
        return known[architecture]

    def architecture(self, options: Mapping[str, Any]) -> str:
        """Their class for a model of ours with these options."""
        for name, wanted in self.heads:
            if all(options.get(key) == value for key, value in wanted.items()):
                return name
        name, wanted = min(
            self.heads, key=lambda head: sum(options.get(key) != value for key, value in head[1].items())
        )
        odd = {key: value for key, value in wanted.items() if options.get(key) != value}
        raise ConfigError(
            "the other library has no such model",
            got=", ".join(f"{key} {options.get(key)!r}" for key in odd),
            expected=", ".join(f"{key} {value!r}" for key, value in odd.items()) + f", as {name} has",
            remedy="Keep it in regard's own form.",
        )
