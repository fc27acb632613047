"""Reads the texts of verbs: from the command line, from a file, or from standard input, in batches."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from regard.cli._terminal import one_line
from regard.core.errors import DataError, UsageError
from regard.core.paths import IMAGE_SUFFIXES


def add_inputs(parser: argparse.ArgumentParser, *, what: str = "text", number: str = "*") -> None:
    parser.add_argument(
        "texts", nargs=number, metavar=what.upper(), help=f"{what}s; without any, standard input is read"
    )
    parser.add_argument("--file", metavar="FILE", help="read lines from a file (plain, .gz or .xz)")
    parser.add_argument("--json", action="store_true", help="write JSON lines")


def batches(arguments: argparse.Namespace, most: int = 256) -> Iterator[list[str]]:
    """Yield the texts, up to `most` at a time."""
    if arguments.texts:
        yield list(arguments.texts)
    elif arguments.file:
        from regard.cli._lines import Malformed
        from regard.core.lines import read_lines

        malformed = Malformed(arguments.file)
        lines = read_lines(arguments.file, malformed.add)
        while chunk := list(islice(lines, most)):
            yield chunk
        malformed.tell()
    else:
        from regard.cli._lines import chunks

        yield from chunks(most)


def text_counter(arguments: argparse.Namespace) -> Callable[[], int | None]:
    """Counts the texts that `batches` will yield, if that can be known beforehand."""
    if arguments.texts:
        return lambda: len(arguments.texts)
    if not arguments.file:
        from regard.cli._lines import line_counter

        return line_counter()

    def count() -> int | None:
        from regard.core.lines import open_lines

        # Anything but a regular file, such as a pipe, can be read only once.
        return sum(1 for _ in open_lines(arguments.file)) if Path(arguments.file).is_file() else None

    return count


def columns(lines: list[str], count: int, what: str, numbers: Iterable[int] | None = None) -> list[list[str]]:
    """The tab-separated columns of lines, as one list per column; `numbers` are those of the lines, if not 1, 2, …"""
    rows = [line.split("\t") for line in lines]
    for number, row in zip(numbers or range(1, len(rows) + 1), rows, strict=True):
        if len(row) != count:
            raise DataError(f"line {number} is not {what} separated by tabs", got=f"{len(row)} columns", expected=count)
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(count)]


def is_image(text: str) -> bool:
    """Whether an argument is the name of an image that exists."""
    return len(text) < 256 and Path(text).suffix.lower() in IMAGE_SUFFIXES and Path(text).is_file()


def check_kind(model: Any, texts: list[str]) -> None:
    """Refuse an image that is given to a model of text, which would read the file's name. A model that reads neither
    has not the verb, and its own error says what it has."""
    if {"text", "pair"}.intersection(model.accepts) and (images := [text for text in texts if is_image(text)]):
        remedy = "Give a text, or a model of images."
        raise UsageError(f"{images[0]} is an image, and this model reads text", remedy=remedy)


def check_support(model: Any, folder: str | None) -> None:
    """Refuse labelled images for a model whose classes are fixed."""
    if folder is not None and "support" not in model.accepts:
        raise UsageError("--support is for few-shot models", got="one with its own classes", remedy="Leave it out.")


def opened(path: str) -> Any:
    """Load the model; print notes about how it was loaded on standard error."""
    from regard import api

    model = api.load(path)
    for note in model.stored.notes:
        print(f"regard: note: {one_line(note)}", file=sys.stderr)
    return model


def tell_passed_over(model: Any) -> None:
    """Print on standard error which files of a support set are no images."""
    if names := getattr(model, "passed_over", ()):
        listed = ", ".join(one_line(name) for name in names[:3]) + (" …" if len(names) > 3 else "")
        files = "1 file of the support set is no image and was" if len(names) == 1 else (
            f"{len(names)} files of the support set are no images and were")  # fmt: skip
        print(f"regard: note: {files} passed over: {listed}", file=sys.stderr)


def tell_cut(model: Any) -> None:
    """Print on standard error how many texts were cut because the model cannot read them in full."""
    if count := getattr(model, "n_cut", 0):
        texts = "1 text was" if count == 1 else f"{count} texts were"
        print(f"regard: note: {texts} longer than the {model.reads_at_most} tokens that this model reads, and cut",
              file=sys.stderr)  # fmt: skip
