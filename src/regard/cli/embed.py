"""Turn texts or images into vectors of length 1: a .npy file with one row per input, or JSON lines.

Texts come from the command line, --file or standard input, one per line. For an image model each of them is the path of
an image file.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from regard.cli._engine import add_engine, opened_with_engine
from regard.cli._inputs import add_inputs, batches, check_kind, tell_cut, text_counter
from regard.cli._progress import Progress
from regard.cli._terminal import shown_json
from regard.core.errors import UsageError

_AT_ONCE = 2048  # inputs; texts of similar length among them run together


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", help="a model folder")
    add_inputs(parser, what="input")
    parser.add_argument("--out", metavar="FILE.npy", help="write the vectors to this file")
    add_engine(parser)


def run(arguments: argparse.Namespace) -> int:
    from regard import api

    if not arguments.out and not arguments.json:
        raise UsageError("no output is given for the vectors", remedy="Give --out FILE.npy, or --json.")
    if arguments.out and not arguments.out.endswith(".npy"):
        raise UsageError("the file for vectors must end in .npy", got=arguments.out)
    model: Any = opened_with_engine(arguments)
    check_kind(model, arguments.texts)
    unit = "images" if "image" in model.accepts else "lines"
    with Progress("embedding", text_counter(arguments), unit=unit) as progress:
        parts = _vectors(model, arguments, progress)
        shape = api.write_vectors(parts, arguments.out) if arguments.out else None
        for _ in parts:  # without a file, each part is only printed
            pass
    tell_cut(model)
    if shape is not None:
        print(f"{shape[0]} vector{'s' * (shape[0] != 1)} of {shape[1]} numbers in {arguments.out}")
    return 0


def _vectors(model: Any, arguments: argparse.Namespace, progress: Progress) -> Iterator[Any]:
    """The vectors of the inputs, part by part, so that memory does not grow with their number."""
    kind = "image" if "image" in model.accepts else "text"
    for lines in batches(arguments, _AT_ONCE):
        with progress.working():
            vectors = model.embed(lines, on_progress=progress.on_progress)
        if arguments.json:
            for line, vector in zip(lines, vectors.tolist(), strict=True):
                print(shown_json({kind: line, "vector": vector}), flush=True)
        yield vectors
