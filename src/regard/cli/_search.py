"""Decoding options that several verbs share."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from regard.cli._terminal import one_line

_OPTIONS: dict[str, tuple[type, str]] = {
    "beam": (int, "hypotheses kept at each step; 1 is greedy"),
    "nbest": (int, "number of translations per line"),
    "length_penalty": (float, "0: none, 1: usual"),
    "coverage_penalty": (float, "penalise source words that got no attention"),
    "min_length": (int, "minimum number of tokens"),
    "max_length": (int, "maximum number of tokens"),
    "max_source": (int, "maximum number of source tokens per line (1024); longer lines are refused"),
    "no_repeat_ngram": (int, "never generate the same n tokens twice"),
    "repetition_penalty": (float, "above 1, earlier tokens become less probable"),
    "temperature": (float, "for --sample"),
    "top_k": (int, "for --sample"),
    "top_p": (float, "for --sample"),
    "min_p": (float, "for --sample"),
    "seed": (int, "for --sample"),
}


def add_search(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("decoding (defaults are stored with the model)")
    for name, (kind, text) in _OPTIONS.items():
        group.add_argument("--" + name.replace("_", "-"), type=kind, help=text, metavar="N")
    group.add_argument("--sample", action="store_true", default=None, help="sample instead of searching")


def add_engine(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--engine",
        choices=("auto", "plain", "float32", "int8"),
        default="auto",
        help="how the model runs: plain is the reference, float32 gives the same faster, int8 is faster still and "
        "nearly the same; auto (the default) is float32 where it can be",
    )


def use_engine(model: Any, arguments: argparse.Namespace) -> None:
    """Have the model run as asked, and say where it cannot."""
    use = getattr(model, "use_engine", None)  # a model that does not generate is refused by its verb
    reason = use(arguments.engine) if use is not None else None
    if reason is not None:
        print(f"regard: note: {arguments.engine} cannot run here, plain does: {one_line(reason)}", file=sys.stderr)


def search_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """The options that were given."""
    given = {name: getattr(arguments, name) for name in [*_OPTIONS, "sample"]}
    return {name: value for name, value in given.items() if value is not None}
