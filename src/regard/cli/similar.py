"""Measure how similar two texts are: the cosine of their vectors, from -1 to 1.

Give two texts on the command line, or lines of two texts separated by a tab from --file or standard input.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from regard.cli._engine import add_engine, opened_with_engine
from regard.cli._inputs import add_inputs, batches, columns, tell_cut
from regard.cli._terminal import shown, shown_json
from regard.core.errors import UsageError


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", help="a model folder")
    add_inputs(parser, what="text")
    add_engine(parser)


def run(arguments: argparse.Namespace) -> int:
    if arguments.texts and len(arguments.texts) != 2:
        raise UsageError(
            "similar compares two texts", got=len(arguments.texts), remedy="Or give lines of two texts with --file."
        )
    model: Any = opened_with_engine(arguments)
    start = 1
    for lines in batches(arguments):
        numbers = range(start, start + len(lines))
        first, second = ([lines[0]], [lines[1]]) if arguments.texts else columns(lines, 2, "a pair", numbers)
        for text, other, cosine in zip(first, second, model.similar(first, second), strict=True):
            facts = {"first": text, "second": other, "cosine": cosine}
            print(shown_json(facts) if arguments.json else shown(f"{cosine:.4f}\t{text}\t{other}"))
        sys.stdout.flush()
        start += len(lines)
    tell_cut(model)
    return 0
