"""Conversion between our model and a folder in another library's format: configuration and parameter names, both ways.

A model file defines a `Conversion`. Reading and writing use the same tables, so they cannot disagree. A `FieldMap` maps
names of configuration fields, a `KeyMap` maps names of parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

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
"""Their names of activations → ours. Where several of their names mean the same, the first is written."""

_MISSING = object()


@dataclass(frozen=True)
class Field:
    """One field: both names, the default if a folder leaves it out, and the values that are named differently."""

    ours: str
    theirs: str
    default: Any = _MISSING
    values: Mapping[Any, Any] | None = None

    def to_ours(self, config: Mapping[str, Any]) -> Any:
        value = config.get(self.theirs, self.default)
        if value is _MISSING:
            raise ConfigError(f"config.json lacks {self.theirs}", remedy="Copy or download it again.")
        if self.values is None:
            return value
        if not isinstance(value, Hashable) or value not in self.values:
            known = ", ".join(str(name) for name in self.values)
            raise ConfigError(
                f"config.json: {self.theirs} is not supported", got=repr(value)[:80], expected=f"one of {known}"
            )
        return self.values[value]

    def to_theirs(self, value: Any) -> Any:
        if self.values is None:
            return value
        for theirs, ours in self.values.items():
            if ours == value:
                return theirs
        raise ConfigError(
            f"the other library does not support this {self.ours}",
            got=value,
            expected=f"one of {', '.join(dict.fromkeys(map(str, self.values.values())))}",
            remedy="Keep it in regard's own format.",
        )


@dataclass(frozen=True)
class FieldMap:
    """All fields of a format. `fixed` holds their fields that have a single supported value; others are refused."""

    fields: Sequence[Field]
    fixed: Mapping[str, Any] = field(default_factory=dict)

    def to_ours(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Their configuration → our options; the error lists all unsupported values."""
        unsupported = [
            f"{name} {config[name]!r}" for name, only in self.fixed.items() if config.get(name, only) != only
        ]
        if unsupported:
            expected = ", ".join(f"{name} {only!r}" for name, only in self.fixed.items())
            raise ConfigError("config.json has unsupported values", got=", ".join(unsupported), expected=expected)
        return {field.ours: field.to_ours(config) for field in self.fields}

    def to_theirs(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Our options → their configuration."""
        return {**self.fixed, **{field.theirs: field.to_theirs(options[field.ours]) for field in self.fields}}


@dataclass(frozen=True)
class Conversion:
    """How a model is converted from and to the other library's format."""

    model_types: tuple[str, ...]
    """Values of `model_type` that this model reads; the first is written."""
    prefix: str
    """The prefix of the bare model's names inside a model with a head; folders of bare models leave it out.
    `{model_type}` in it is filled in."""
    heads: Sequence[tuple[str, Mapping[str, Any]]]
    """Their classes, and our options for each; the first that fits is read and written."""
    to_ours: Callable[[Mapping[str, Any]], dict[str, Any]]
    """Their configuration → our options, without the head."""
    to_theirs: Callable[[Any], dict[str, Any]]
    """Our configuration → theirs."""
    keys: Callable[[Any], KeyMap]
    """The table of parameter names; it may know more names than one head uses."""
    bare: tuple[str, ...] = ()
    """Their classes without a head; their names lack the prefix."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Suffixes of names in old files → today's suffixes."""
    optional: Sequence[tuple[str, str, tuple[str, ...]]] = ()
    """Parts that a folder may lack, each as: our option for it, the end of its tensor's name, the heads without it."""
    constants: Callable[[Any], dict[str, Tensor]] = lambda config: {}
    """Tensors, by their names, that their files hold although the configuration determines them. They are written but
    not read."""

    def head(self, architecture: str) -> Mapping[str, Any]:
        """Our options for their class."""
        known = dict(reversed(self.heads))
        if architecture not in known:
            raise UnknownName("architecture in config.json", architecture, known)
        return known[architecture]

    def architecture(self, options: Mapping[str, Any]) -> str:
        """Their class for a model of ours with these options."""
        name, differing = self.nearest(options)
        if not differing:
            return name
        raise ConfigError(
            "the other library has no such model",
            got=", ".join(f"{key} {options.get(key)!r}" for key in differing),
            expected=", ".join(f"{key} {value!r}" for key, value in differing.items()) + f", as {name} has",
            remedy="Keep it in regard's own format.",
        )

    def nearest(self, options: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """Their class that needs the fewest changes of our options, and these changes. On a tie, the first class."""
        differing = [
            (name, {key: value for key, value in required.items() if options.get(key) != value})
            for name, required in self.heads
        ]
        return min(differing, key=lambda pair: len(pair[1]))


def conversions_of(model: Any) -> tuple[Conversion, ...]:
    """The conversions of a model's class: none, one or several."""
    stated = getattr(model, "conversion", ())
    return stated if isinstance(stated, tuple) else (stated,)


def nearest_conversion(model: Any, options: Mapping[str, Any]) -> Conversion:
    """The conversion whose format needs the fewest changes of the options."""
    return min(conversions_of(model), key=lambda conversion: len(conversion.nearest(options)[1]))
