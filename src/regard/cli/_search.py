"""Decoding options that several verbs share."""

from __future__ import annotations

import argparse
from typing import Any

_OPTIONS: dict[str, tuple[type, str]] = {
    "beam": (int, "hypotheses kept at each step; 1 is greedy"),
    "patience": (
        float,
        "stop when this many times the beam size have ended; 1 is faster, the default searches until it is certain",
    ),
    "nbest": (int, "number of {output}s per {source}"),
    "length_penalty": (float, "0: none, 1: usual"),
    "coverage_penalty": (float, "penalise {parts} that got no attention"),
    "min_length": (int, "minimum number of tokens"),
    "max_length": (int, "maximum number of tokens"),
    "max_source": (int, "maximum number of tokens per {source} (1024); a longer one is refused"),
    "no_repeat_ngram": (int, "never generate the same n tokens twice"),
    "repetition_penalty": (float, "above 1, earlier tokens become less probable"),
    "temperature": (float, "for --sample"),
    "top_k": (int, "for --sample"),
    "top_p": (float, "for --sample"),
    "min_p": (float, "for --sample"),
    "seed": (int, "for --sample"),
}


def add_search(
    parser: argparse.ArgumentParser,
    *,
    nbest: bool = True,
    output: str = "translation",
    source: str = "line",
    parts: str = "source words",
    max_source: bool = True,
) -> None:
    """Add the options; `nbest` is for verbs that show several outputs of an input, `max_source` for those that read
    text. The other words say in the help what the verb makes of what."""
    left_out = [name for name, given in (("nbest", nbest), ("max_source", max_source)) if not given]
    group = parser.add_argument_group("decoding (defaults are stored with the model)")
    for name, (kind, text) in _OPTIONS.items():
        if name not in left_out:
            said = text.format(output=output, source=source, parts=parts)
            group.add_argument("--" + name.replace("_", "-"), type=kind, help=said, metavar="N")
    group.add_argument("--sample", action="store_true", default=None, help="sample instead of searching")


def search_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """The options that were given."""
    given = {name: getattr(arguments, name, None) for name in [*_OPTIONS, "sample"]}
    return {name: value for name, value in given.items() if value is not None}
