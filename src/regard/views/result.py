"""The results of methods, in the few forms that every view can show.

A `Result` holds sentences to read first, panels, exact numbers, and optionally all attention heads. It does not know
models, so a page, a picture and the terminal can show the result of any method.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from regard.core.errors import ShapeError, UsageError
from regard.views.photos import Photo

SUFFIXES = (".html", ".svg", ".png", ".json")


@dataclass(frozen=True)
class Matrix:
    """Values with a label for each row and column. `diverging`: the sign matters, so zero gets the neutral colour.
    `square`: the cells are positions, such as image patches, and are drawn as squares."""

    name: str
    rows: list[str]
    columns: list[str]
    values: list[list[float]]
    diverging: bool = False
    note: str = ""
    square: bool = False

    def __post_init__(self) -> None:
        _same_length(self.name, "rows of values", self.values, "row labels", self.rows)
        for row in self.values:
            _same_length(self.name, "values in a row", row, "column labels", self.columns)

    def as_dict(self) -> dict[str, Any]:
        fields = ("name", "rows", "columns", "values", "diverging", "note", "square")
        return {"kind": "matrix"} | {name: plain(getattr(self, name)) for name in fields}


@dataclass(frozen=True)
class Curves:
    """Named lines of points (x, y); a band of the same name, points (x, low, high), shows their uncertainty."""

    name: str
    x: str
    y: str
    series: dict[str, list[tuple[float, float]]]
    log_x: bool = False
    log_y: bool = False
    bands: dict[str, list[tuple[float, float, float]]] = field(default_factory=dict)
    note: str = ""

    def __post_init__(self) -> None:
        for label, points in self.series.items():
            _tuples(f"{self.name}, line {label!r}", points, 2, "(x, y)")
        for label, band in self.bands.items():
            _tuples(f"{self.name}, band {label!r}", band, 3, "(x, low, high)")

    def as_dict(self) -> dict[str, Any]:
        fields = ("name", "x", "y", "series", "log_x", "log_y", "bands", "note")
        return {"kind": "curves"} | {name: plain(getattr(self, name)) for name in fields}


@dataclass(frozen=True)
class Table:
    """Rows of words and numbers; None is an empty cell."""

    name: str
    columns: list[str]
    rows: list[list[str | float | int | None]]
    note: str = ""

    def __post_init__(self) -> None:
        for row in self.rows:
            _same_length(self.name, "cells in a row", row, "columns", self.columns)

    def as_dict(self) -> dict[str, Any]:
        return {"kind": "table"} | {name: plain(getattr(self, name)) for name in ("name", "columns", "rows", "note")}


@dataclass(frozen=True)
class Words:
    """A text whose tokens are coloured by their values."""

    name: str
    labels: list[str]
    values: list[float]
    diverging: bool = True
    note: str = ""

    def __post_init__(self) -> None:
        _same_length(self.name, "values", self.values, "labels", self.labels)

    def as_dict(self) -> dict[str, Any]:
        fields = ("name", "labels", "values", "diverging", "note")
        return {"kind": "words"} | {name: plain(getattr(self, name)) for name in fields}


@dataclass(frozen=True)
class Points:
    """Named points (x, y, label) in a plane, on the same scale in both directions."""

    name: str
    x: str
    y: str
    points: list[tuple[float, float, str]]
    note: str = ""

    def __post_init__(self) -> None:
        _tuples(self.name, self.points, 3, "(x, y, label)")

    def as_dict(self) -> dict[str, Any]:
        fields = ("name", "x", "y", "points", "note")
        return {"kind": "points"} | {name: plain(getattr(self, name)) for name in fields}


@dataclass(frozen=True)
class Document:
    """Sentences of words: each sentence has a weight, shown in the margin, and each of its words a value."""

    name: str
    margin: list[float]
    labels: list[list[str]]
    values: list[list[float]]
    note: str = ""

    def __post_init__(self) -> None:
        _same_length(self.name, "sentences", self.labels, "weights in the margin", self.margin)
        _same_length(self.name, "sentences", self.labels, "lists of values", self.values)
        for words, values in zip(self.labels, self.values, strict=True):
            _same_length(self.name, "values", values, "words", words)

    def as_dict(self) -> dict[str, Any]:
        fields = ("name", "margin", "labels", "values", "note")
        return {"kind": "document"} | {name: plain(getattr(self, name)) for name in fields}


Panel = Matrix | Curves | Table | Words | Points | Document | Photo


@dataclass(frozen=True, eq=False)
class HeadSite:
    """One attention site: its labels, and for each kind of weights a tensor [H,Q,K]; a kind may have H = 1."""

    rows: list[str]
    columns: list[str]
    kinds: dict[str, Tensor]

    def __post_init__(self) -> None:
        if not self.kinds:
            raise ShapeError("a site has no weights", expected="a tensor [H,Q,K] for at least one kind")
        for kind, weights in self.kinds.items():
            fits = weights.ndim == 3 and weights.shape[1:] == (len(self.rows), len(self.columns))
            if not fits or not weights.shape[0]:
                raise ShapeError(
                    f"the weights of kind {kind!r} do not fit their labels",
                    got=list(weights.shape),
                    expected=f"[heads, {len(self.rows)}, {len(self.columns)}]",
                )


@dataclass(frozen=True, eq=False)
class Heads:
    """Every head of every site, for the attention explorer; `kinds` in the order in which they are offered."""

    sites: dict[str, HeadSite]
    kinds: list[str]

    def __post_init__(self) -> None:
        if not self.sites:
            raise ShapeError("there are no attention sites", expected="at least one")
        for name, site in self.sites.items():
            if unknown := set(site.kinds) - set(self.kinds):
                raise ShapeError(
                    f"site {name!r} has a kind that is not listed", got=sorted(unknown), expected=self.kinds
                )

    def as_dict(self) -> dict[str, Any]:
        sites = {
            name: {"rows": list(site.rows), "columns": list(site.columns), "kinds": plain(site.kinds)}
            for name, site in self.sites.items()
        }
        return {"kinds": list(self.kinds), "sites": sites}


@dataclass(frozen=True, eq=False)
class Result:
    """A method's result. `statements` are plain sentences to read first; `data` holds the exact numbers by name."""

    method: str
    title: str
    panels: list[Panel]
    statements: list[str] = field(default_factory=list)
    data: dict[str, Any] = field(default_factory=dict)
    heads: Heads | None = None

    def as_dict(self) -> dict[str, Any]:
        """Everything as JSON data; numbers that are not finite become None."""
        parts: dict[str, Any] = {
            "method": self.method,
            "title": self.title,
            "statements": list(self.statements),
            "data": plain(self.data),
            "panels": [panel.as_dict() for panel in self.panels],
        }
        return parts | ({"heads": self.heads.as_dict()} if self.heads else {})

    def save(self, path: str | Path) -> None:
        """Write a page, a picture or the data, depending on the file's suffix."""
        path = output_file(path)
        suffix = path.suffix.lower()
        try:
            if suffix == ".html":
                from regard.views.page import write_page

                write_page(self, path)
            elif suffix == ".json":
                path.write_text(json.dumps(self.as_dict(), ensure_ascii=False, allow_nan=False), encoding="utf-8")
            else:
                from regard.views.picture import write_picture

                write_picture(self, path)
        except OSError as error:
            raise UsageError(f"{path} could not be written", got=error.strerror) from None

    def _repr_html_(self) -> str:
        from regard.views.page import frame

        return frame(self)


def output_file(name: str | Path, *, also: tuple[str, ...] = ()) -> Path:
    """Check the name of an output file early: an error should not come after an hour's work."""
    path, known = Path(name), (*SUFFIXES, *also)
    if path.suffix.lower() not in known:
        raise UsageError(f"{name} has an unknown suffix", got=repr(path.suffix), expected=", ".join(known))
    if not path.parent.is_dir():
        raise UsageError(f"there is no folder {path.parent}", remedy="Create it first.")
    return path


def plain(value: Any) -> Any:
    """Tensors, arrays, tuples and numbers as JSON data: nested lists, keys as text, None for NaN and infinity."""
    if isinstance(value, Tensor):
        value = value.detach().cpu().tolist()
    elif isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if value is None or isinstance(value, str | int):
        return value
    return str(value)


def _same_length(name: str, what: str, values: Sequence[Any], labels: str, given: Sequence[Any]) -> None:
    if len(values) != len(given):
        raise ShapeError(f"{name}: {what} and {labels} differ in number", got=len(values), expected=len(given))


def _tuples(name: str, points: Sequence[Any], size: int, form: str) -> None:
    for point in points:
        if len(point) != size:
            raise ShapeError(f"{name}: a point has the wrong size", got=repr(tuple(point)), expected=form)
