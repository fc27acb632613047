"""What a .trace file must hold, checked before a method reads it.

A trace may come from anywhere. Its words are checked by their types and its tensors by their shapes against the tokens
that the words tell, so that methods can rely on both.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from torch import Tensor

from regard.core import weights
from regard.core.errors import DataError

Number = Annotated[float, Field(allow_inf_nan=True)]
Ranked = tuple[str, Number]


class _Known(BaseModel):
    """Fields that are not named here are left to whoever reads them."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)


class Output(_Known):
    """What the model said, an entry for each row of each that there is."""

    translations: list[str] | None = None
    next: list[list[Ranked]] | None = None
    classes: list[Ranked] | None = None
    values: list[Number] | None = None
    cosines: list[Number] | None = None
    spans: list[tuple[int, int]] | None = None
    tokens: list[list[str]] | None = None


class Words(_Known):
    """What is not a tensor."""

    model: str
    task: str
    sides: Annotated[dict[str, Annotated[list[list[str]], Field(min_length=1)]], Field(min_length=1)]
    output: Output
    grid: tuple[Annotated[int, Field(gt=0)], Annotated[int, Field(gt=0)]] | None
    hidden: list[str]
    sites: list[tuple[str, str, str]]


def check_trace(path: Path, key: str) -> None:
    """Refuse a file whose parts do not fit together; `key` is where its metadata holds the words."""
    tensors, text = weights.read_tensors(path), weights.metadata(path).get(key)
    if text is None:
        return  # `Trace.load` says what it is instead
    try:
        if json.loads(text).get("version") != 1:
            return  # and which version
        words = Words.model_validate_json(text)
        _check_sides(words)
        _check_tensors(words, tensors)
    except (ValidationError, ValueError, AttributeError, RecursionError) as error:
        reason = error.errors()[0] if isinstance(error, ValidationError) else None
        got = f"{'.'.join(map(str, reason['loc']))}: {reason['msg']}" if reason else str(error)
        remedy = "Make it anew: regard explain MODEL TEXT --out NAME.trace"
        raise DataError(f"{path} is a damaged trace", got=got[:200], remedy=remedy) from None


def _check_sides(words: Words) -> None:
    rows = {len(side) for side in words.sides.values()}
    if len(rows) != 1:
        raise ValueError(f"sides of {sorted(rows)} rows")
    if words.grid is not None:
        shortest = min(len(row) for row in next(iter(words.sides.values())))
        if words.grid[0] * words.grid[1] > shortest:
            raise ValueError(f"{shortest} tokens for an image of {words.grid[0]} × {words.grid[1]} patches")
    for name in Output.model_fields:
        entries = getattr(words.output, name)
        if entries is not None and len(entries) != next(iter(rows)):
            raise ValueError(f"{len(entries)} {name} for {next(iter(rows))} rows")


def _check_tensors(words: Words, tensors: Mapping[str, Tensor]) -> None:
    rows = len(next(iter(words.sides.values())))
    longest = {side: max(map(len, labels)) for side, labels in words.sides.items()}
    for name in words.hidden:
        tensor = tensors.get(f"hidden.{name}")
        if tensor is None or tensor.dim() != 3 or len(tensor) != rows or not tensor.is_floating_point():
            raise ValueError(f"hidden.{name} is {_shape(tensor)}, not numbers [{rows},T,D]")
    for name, queries, keys in words.sites:
        if queries not in longest or keys not in longest:
            raise ValueError(f"{name} looks from {queries} to {keys}, which are no sides")
        whole = rows, None, longest[queries], longest[keys]
        for part in ("weights", "gradients"):
            _check_shape(f"site.{name}.{part}", tensors, whole)
        _check_shape(f"site.{name}.path", tensors, (rows, None, longest[keys], None))
        allowed = tensors.get(f"site.{name}.allowed")
        if allowed is not None and (allowed.dim() != 4 or not _broadcasts(allowed, whole)):
            raise ValueError(f"site.{name}.allowed is {_shape(allowed)}, which does not fit {whole}")
        path, frame = (tensors.get(f"site.{name}.{part}") for part in ("path", "frame"))
        if frame is not None and (
            path is None or frame.dim() < 2 or frame.shape[-2] != path.shape[-1] or frame.dim() > 4
        ):
            raise ValueError(f"site.{name}.frame is {_shape(frame)}, which does not fit its path")


def _check_shape(name: str, tensors: Mapping[str, Tensor], wanted: tuple[int | None, ...]) -> None:
    tensor = tensors.get(name)
    if tensor is None:
        return
    fits = len(tensor.shape) == len(wanted) and all(
        size == want for size, want in zip(tensor.shape, wanted, strict=True) if want is not None
    )
    if not fits or not tensor.is_floating_point() or 0 in tensor.shape:
        raise ValueError(f"{name} is {_shape(tensor)}, not numbers {[want or 'any' for want in wanted]}")


def _broadcasts(tensor: Tensor, wanted: tuple[int | None, ...]) -> bool:
    return all(size == 1 or want is None or size == want for size, want in zip(tensor.shape, wanted, strict=True))


def _shape(tensor: Tensor | None) -> str:
    return "missing" if tensor is None else f"{tensor.dtype} {list(tensor.shape)}"
