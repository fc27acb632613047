"""Say the class of texts, pairs of texts, or images.

Texts come from the command line, --file or standard input, one a line; with --pairs a line is two texts separated by a
tab. For a model of images the arguments are image files. What is printed: class, probability, text.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from regard.cli._inputs import add_inputs, batches, columns, opened


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", help="a model folder")
    add_inputs(parser, what="text")
    parser.add_argument("--pairs", action="store_true", help="each line is two texts, separated by a tab")


def run(arguments: argparse.Namespace) -> int:
    model: Any = opened(arguments.model)
    for lines in batches(arguments):
        results = model.classify(*(columns(lines, 2, "a pair") if arguments.pairs else [lines]))
        for line, found in zip(lines, results, strict=True):
            print(_line(line, found, as_json=arguments.json))
        sys.stdout.flush()
    return 0


def _line(line: str, found: Any, *, as_json: bool) -> str:
    if isinstance(found, list):  # a class for each token
        if as_json:
            tokens = [{"token": token, "label": one.label, "score": one.score} for token, one in found]
            return json.dumps({"input": line, "tokens": tokens}, ensure_ascii=False)
        return " ".join(f"{token}/{one.label}" for token, one in found)
    if as_json:
        facts = {"input": line, "label": found.label, "score": found.score, "scores": found.scores}
        return json.dumps(facts, ensure_ascii=False)
    return f"{found.label}\t{found.score:.4f}\t{line}"
