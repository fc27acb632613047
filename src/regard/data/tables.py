"""Tables of text: tab-separated without quoting, comma-separated with quoting (.csv), or one object per line (.jsonl).

They may be compressed. A column is given by its number, counted from 0, or by its name if the first line holds the
names; in objects, by its name.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.core.errors import DataError, UnknownName
from regard.core.lines import read_lines

Column = str | int


@dataclass(frozen=True)
class Example:
    """One or two texts, and their label ("" if no label was requested)."""

    text: str
    other: str | None = None
    label: str = ""


def read_examples(
    path: Path, *, text: Column, other: Column | None = None, label: Column | None = None, header: bool | None = None
) -> list[Example]:
    """The rows of a table; blank lines are skipped. `header` None: there is a header if a column is given by name."""
    wanted = [column for column in (text, other, label) if column is not None]
    examples = []
    for cells in read_table(path, wanted, header):
        rest = iter(cells)
        first, second = next(rest), next(rest) if other is not None else None
        examples.append(Example(first, second, next(rest) if label is not None else ""))
    if not examples:
        raise DataError(f"{path} holds no rows", remedy="Check the file, and data's header.")
    return examples


def read_table(path: Path, columns: Sequence[Column], header: bool | None = None) -> Iterator[list[str]]:
    """Yield the requested columns of each row, in the requested order."""
    if _kind(path) == ".jsonl":
        yield from _objects(path, columns)
        return
    lines = _rows(path)
    if header or (header is None and any(isinstance(column, str) for column in columns)):
        _, names = next(lines, (0, []))
    else:
        names = []
    places = [_place(path, column, names) for column in columns]
    for number, cells in lines:
        if len(cells) <= max(places):
            wanted = f"at least {max(places) + 1}"
            raise DataError(f"line {number} of {path} lacks a column", got=f"{len(cells)} columns", expected=wanted)
        yield [cells[place] for place in places]


def _place(path: Path, column: Column, names: Sequence[str]) -> int:
    if isinstance(column, int):
        if column < 0:
            raise DataError(f"{path} has no column {column}", expected="a number from 0 on, or a name")
        return column
    if column not in names:
        raise UnknownName(f"column of {path}", column, names)
    return names.index(column)


def _kind(path: Path) -> str:
    """The file's suffix, without that of its compression."""
    return next((suffix for suffix in reversed(path.suffixes) if suffix.lower() not in (".gz", ".xz")), "").lower()


def _objects(path: Path, columns: Sequence[Column]) -> Iterator[list[str]]:
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"line {number} of {path} is not JSON", got=str(error)[:80]) from None
        cells = [entry.get(column) if isinstance(entry, dict) else None for column in columns]
        for column, cell in zip(columns, cells, strict=True):
            if not isinstance(cell, str | int | float):
                known = sorted(map(str, entry)) if isinstance(entry, dict) else []
                raise DataError(
                    f"line {number} of {path} has no text {column!r}", expected=f"one of {', '.join(known)}"
                )
        yield [str(cell) for cell in cells]


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield cells with the number of the line in which they end."""
    if _kind(path) != ".csv":
        yield from ((n, line.split("\t")) for n, line in enumerate(read_lines(path), 1) if line.strip())
        return
    reader = csv.reader((line + "\n" for line in read_lines(path)), strict=True)
    try:
        yield from ((reader.line_num, cells) for cells in reader if cells)
    except csv.Error as error:
        raise DataError(f"line {reader.line_num} of {path} is no CSV", got=error, remedy="Check its quotes.") from error
