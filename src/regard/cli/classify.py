"""Classify texts, pairs of texts, or images.

Texts come from the command line, --file or standard input, one per line; with --pairs a line is two texts separated by
a tab. For an image model the arguments are image files. Prints class, probability and text; of a regression, the number
and the text. A multi-label model prints all classes with a probability of at least 0.5, or - if there is none. An empty
text has no class: its line is -.
A few-shot model takes its classes from a folder with one subfolder of labelled images per class:
regard classify MODEL --support FOLDER image.png
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from regard.cli._engine import add_engine, opened_with_engine
from regard.cli._inputs import add_inputs, batches, check_kind, check_support, columns, tell_cut, tell_passed_over
from regard.cli._terminal import shown, shown_json


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", help="a model folder")
    add_inputs(parser, what="text")
    parser.add_argument("--pairs", action="store_true", help="each line is two texts, separated by a tab")
    parser.add_argument("--support", metavar="FOLDER", help="few-shot models: labelled images, a subfolder per class")
    add_engine(parser)


def run(arguments: argparse.Namespace) -> int:
    model: Any = opened_with_engine(arguments)
    check_kind(model, arguments.texts)
    check_support(model, arguments.support)
    support = {} if arguments.support is None else {"support": arguments.support}
    first, empty = 1, list[int]()
    for lines in batches(arguments):
        asked = {number: line for number, line in enumerate(lines, first) if line.strip()}
        given = list(asked.values())
        sides = columns(given, 2, "a pair", asked) if arguments.pairs else [given]
        classes = model.classify(*sides, **support) if asked else []
        results = dict(zip(asked, classes, strict=True))
        for number, line in enumerate(lines, first):
            print(_line(line, results.get(number), as_json=arguments.json))
        sys.stdout.flush()
        empty += [number for number in range(first, first + len(lines)) if number not in asked]
        first += len(lines)
    _tell_empty(empty)
    tell_passed_over(model)
    tell_cut(model)
    return 0


def _tell_empty(numbers: list[int]) -> None:
    """Print on standard error which texts were empty."""
    if numbers:
        listed = ", ".join(map(str, numbers[:5])) + (" …" if len(numbers) > 5 else "")
        which = f"text {listed} is empty and has" if len(numbers) == 1 else f"texts {listed} are empty and have"
        print(f"regard: note: {which} no class", file=sys.stderr)


def _line(line: str, result: Any, *, as_json: bool) -> str:
    if result is None:
        return shown_json({"input": line, "label": None, "score": None}) if as_json else "-"
    if isinstance(result, list):  # a class for each token
        if as_json:
            tokens = [{"token": token, "label": best.label, "score": best.score} for token, best in result]
            return shown_json({"input": line, "tokens": tokens})
        return shown(" ".join(f"{token}/{best.label}" for token, best in result))
    if as_json:
        facts = {"input": line, "label": result.label, "score": result.score, "scores": result.scores}
        return shown_json({**facts, "labels": result.labels})
    if result.label not in result.scores:  # the number of a regression
        return shown(f"{result.score:.4f}\t{line}")
    probabilities = [result.scores.get(label, result.score) for label in result.labels] or [result.score]
    columns = ", ".join(result.labels) or "-", ", ".join(f"{value:.4f}" for value in probabilities), line
    return shown("\t".join(columns))
