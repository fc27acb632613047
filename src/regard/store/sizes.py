"""Checks the sizes in a configuration against its weights file before a model is built.

A model of a billion layers would be built layer by layer until memory runs out, although its weights file has a few
kilobytes. The file's header gives the number of tensors and bytes: every layer has tensors, and no size is larger than
the number of bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from regard.core import weights
from regard.core.config import Config
from regard.core.errors import ConfigError, RegardError
from regard.models import make_model

_MOST_LAYERS = 1000
# Without learned positions the length is not a size of any tensor; this limit is far beyond any trained length.
_LENGTHS = ("max_len", "trained_len", "window", "radius")
_LONGEST = 1 << 27


@dataclass(frozen=True)
class Extent:
    """The contents of a weights file, or of all shards: numbers of tensors and bytes."""

    tensors: int
    bytes: int

    @classmethod
    def of(cls, path: Path) -> Extent:
        return cls(*weights.extent(path))


def empty_model(name: str, config: Config, extent: Extent, where: str) -> nn.Module:
    """Make the model without memory, unless the configuration asks for more than the weights can hold."""
    for field, value in config:
        _check_all(field, value, extent, where)
    try:
        return make_model(name, config, empty=True)
    except RegardError:
        raise
    except (RuntimeError, ValueError, TypeError, OverflowError, ArithmeticError) as error:
        text = str(error).partition("\n")[0][:200]
        raise ConfigError(f"{where} has invalid sizes", got=text, remedy="Copy or download it again.") from None


def vocabulary_size(config: Config) -> int | None:
    """The size of the model's vocabulary; with two vocabularies, that of the target."""
    for name in ("vocab_size", "target_vocab"):
        if (size := getattr(config, name, None)) is not None:
            return int(size)
    return None


def check_tokens(extra: Mapping[str, Any], config: Config, where: str) -> None:
    """Refuse special tokens that are not in the vocabulary."""
    tokens, size = extra.get("tokens", {}), vocabulary_size(config) or 0
    if not isinstance(tokens, Mapping):
        raise ConfigError(f"{where}: tokens is not a mapping", got=repr(tokens)[:80])
    for name, value in tokens.items():
        several = value if isinstance(value, list) and value else [value]
        if not all(token is None or (type(token) is int and 0 <= token < size) for token in several):
            raise ConfigError(f"{where}: {name} is not a token", got=repr(value)[:80], expected=f"0 to {size - 1}")


def _check_all(field: str, value: Any, extent: Extent, where: str) -> None:
    """A size, or all sizes in a list or in the configuration of a part."""
    if type(value) is int:
        _check(field, value, extent, where)
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            _check_all(str(name), inner, extent, where)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            _check_all(field, inner, extent, where)


def _check(field: str, value: int, extent: Extent, where: str) -> None:
    if field in _LENGTHS:
        most, why = _LONGEST, ""
    elif field.endswith("layers"):
        most, why = min(_MOST_LAYERS, extent.tensors), f", as the weights have {extent.tensors:,} tensors"
    else:
        most, why = extent.bytes, ", the number of bytes of the weights"
    if value > most:
        raise ConfigError(
            f"{where}: {field} is too large",
            got=f"{value:,}",
            expected=f"at most {most:,}{why}",
            remedy="Copy or download it again.",
        )
