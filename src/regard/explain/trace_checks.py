"""Checks the contents of a .trace file before a method reads it.

A trace may come from anywhere. The types of its JSON header are checked, and the shapes of its tensors are compared
with the tokens in that header, so that methods can rely on both.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from torch import Tensor

Number = Annotated[float, Field(allow_inf_nan=True)]
Ranked = tuple[str, Number]


class _Known(BaseModel):
    """Fields that are not named here are not checked."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)


class Output(_Known):
    """The model's answers; each that is present has an entry for every row."""

    translations: list[str] | None = None
    next: list[list[Ranked]] | None = None
    classes: list[Ranked] | None = None
    values: list[Number] | None = None
    cosines: list[Number] | None = None
    spans: list[tuple[int, int]] | None = None
    tokens: list[list[str]] | None = None
    layers: list[list[Ranked]] | None = None


Side = Annotated[int, Field(gt=0)]


class Words(_Known):
    """The JSON header: everything but tensors."""

    model: str
    task: str
    sides: Annotated[dict[str, Annotated[list[list[str]], Field(min_length=1)]], Field(min_length=1)]
    output: Output
    grids: dict[str, tuple[Side, Side]]
    axes: dict[str, str]
    texts: list[str] = []
    hidden: list[str]
    sites: list[tuple[str, str, str]]


def check_trace(words: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
    """Raise a ValueError that says in one line which parts do not fit together."""
    try:
        checked = Words.model_validate_json(json.dumps(words))
    except ValidationError as error:
        reason = error.errors()[0]
        raise ValueError(f"{'.'.join(map(str, reason['loc']))}: {reason['msg']}"[:200]) from None
    _check_sides(checked)
    _check_hidden(checked, tensors)
    for name, queries, keys in checked.sites:
        _check_site(checked, tensors, name, (queries, keys))


def _check_sides(words: Words) -> None:
    rows = len(next(iter(words.sides.values())))
    if words.texts and len(words.texts) != rows:
        raise ValueError(f"{len(words.texts)} texts for {rows} rows")
    for side, (height, width) in words.grids.items():
        shortest = min((len(row) for row in words.sides.get(side, [[]])), default=0)
        if height * width > shortest:
            raise ValueError(f"{shortest} of {side} for an image of {height} × {width} patches")
    for name in Output.model_fields:
        entries = getattr(words.output, name)
        if entries is not None and len(entries) != rows:
            raise ValueError(f"{len(entries)} {name} for {rows} rows")


def _check_hidden(words: Words, tensors: Mapping[str, Tensor]) -> None:
    for name in words.hidden:
        tensor, side = tensors.get(f"hidden.{name}"), words.axes.get(name, next(iter(words.sides)))
        if side not in words.sides:
            raise ValueError(f"hidden.{name} belongs to {side}, which is not a side")
        rows = len(words.sides[side])
        if tensor is None or tensor.dim() != 3 or len(tensor) != rows or not tensor.is_floating_point():
            raise ValueError(f"hidden.{name} is {_shape(tensor)}, not numbers [{rows},T,D]")


def _check_site(words: Words, tensors: Mapping[str, Tensor], name: str, axes: tuple[str, str]) -> None:
    parts = {part: tensors.get(f"site.{name}.{part}") for part in ("rows", "calls", "allowed", "path", "frame")}
    inputs, row_numbers, calls = len(next(iter(words.sides.values()))), parts["rows"], parts["calls"]
    if row_numbers is not None and not _numbers_below(row_numbers, inputs):
        raise ValueError(f"site.{name}.rows is {_shape(row_numbers)}, not inputs from 0 to {inputs - 1}")
    rows = inputs if row_numbers is None else len(row_numbers)
    sizes: list[int | None] = []
    for side in axes:
        labels = words.sides.get(side)
        if labels is not None and len(labels) != rows:
            raise ValueError(f"{name} has {rows} rows, and {side} has {len(labels)}")
        sizes.append(None if labels is None else max(map(len, labels)))
    whole = rows, None, *sizes
    for part in ("weights", "gradients"):
        _check_shape(f"site.{name}.{part}", tensors, whole)
    path = parts["path"]
    if calls is not None and (path is None or path.dim() != 5 or not _numbers_below(calls, path.shape[2])):
        raise ValueError(f"site.{name}.calls is {_shape(calls)}, which does not fit its path")
    _check_shape(f"site.{name}.path", tensors, (rows, None, *([] if calls is None else [None]), sizes[1], None))
    allowed, frame = parts["allowed"], parts["frame"]
    if allowed is not None and (allowed.dim() != 4 or not _broadcasts(allowed, whole)):
        raise ValueError(f"site.{name}.allowed is {_shape(allowed)}, which does not fit {whole}")
    if frame is not None and (path is None or not 2 <= frame.dim() <= 4 or frame.shape[-2] != path.shape[-1]):
        raise ValueError(f"site.{name}.frame is {_shape(frame)}, which does not fit its path")


def _numbers_below(tensor: Tensor, limit: int) -> bool:
    """Whether it is a list of whole numbers from 0 to below the limit."""
    whole = tensor.dim() == 1 and len(tensor) > 0 and not tensor.is_floating_point()
    return whole and int(tensor.min()) >= 0 and int(tensor.max()) < limit


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
