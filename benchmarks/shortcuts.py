"""Two shortcuts beside the plain way: a lexical shortlist in translation, and guessed tokens in generation.

    python benchmarks/shortcuts.py TRANSLATOR LANGUAGE_MODEL [--rounds 3] [--lines 400]        needs: REGARD_DATA

TRANSLATOR is an English → German model of Multi30k; its shortlist is made from the training pairs and measured on the
validation sentences: speed, BLEU, and the share of equal outputs. LANGUAGE_MODEL goes on with the beginnings of
stories, with and without `draft="lookup"`; the tokens must be equal. Both ways take turns; medians. Run it alone.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from _results import add_results, put
from sacrebleu import corpus_bleu

import regard
from regard import api
from regard.runtime.limits import cpu

BEGINNINGS = ["Once upon a time, there was a little girl", "Tom had a red ball.", "One day, a big dog", "Lily and Ben"]
Ways = dict[str, Callable[[], Any]]


def seconds(ways: Ways, rounds: int) -> dict[str, float]:
    """The median time of each way; they take turns, after one run that warms up."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name, run in ways.items():
            start = time.perf_counter()
            run()
            if number:
                times[name].append(time.perf_counter() - start)
    return {name: median(values) for name, values in times.items()}


def shortlisted(folder: Path, data: Path, lines: int, rounds: int) -> list[str]:
    model: Any = regard.load(folder)
    train, held = ([api.read_text(data / f"{name}.{side}.gz") for side in ("en", "de")] for name in ("train", "val"))
    texts, references = (part[:lines] for part in held)
    rows = [
        "| search | sentences/s, whole vocabulary | with the shortlist | ratio | BLEU | same text |",
        "|---" * 6 + "|",
    ]
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary) / "shortlist.safetensors"
        model.shortlist(*train, place)
        for engine in ("float32", "int8"):
            model.use_engine(engine)
            for beam in (1, 5):
                options: dict[str, Any] = {"beam": beam, "patience": 1.0} if beam > 1 else {"beam": 1}
                outputs = [model.translate(texts, **options, shortlist=file) for file in (None, place)]
                ways: Ways = {
                    "whole": lambda o=options: model.translate(texts, **o),
                    "short": lambda o=options: model.translate(texts, **o, shortlist=place),
                }
                times = seconds(ways, rounds)
                scores = " → ".join(f"{corpus_bleu(out, [references], lowercase=True).score:.2f}" for out in outputs)
                same = sum(a == b for a, b in zip(*outputs, strict=True)) / len(texts)
                speeds = [len(texts) / times[way] for way in ("whole", "short")]
                cells = [
                    f"{speeds[0]:,.0f}",
                    f"{speeds[1]:,.0f}",
                    f"{speeds[1] / speeds[0]:.2f}×",
                    scores,
                    f"{same:.1%}",
                ]
                rows.append(f"| {engine}, beam {beam} | {' | '.join(cells)} |")
    return rows


def guessed(folder: Path, rounds: int) -> list[str]:
    model: Any = regard.load(folder)
    rows = ['| engine | tokens/s | with `draft="lookup"` | ratio | same text |', "|---" * 5 + "|"]
    for engine in ("float32", "int8"):
        model.use_engine(engine)
        ways: Ways = {
            name: lambda d=draft: [model.generate([text], max_tokens=150, draft=d)[0] for text in BEGINNINGS]
            for name, draft in {"plain": None, "lookup": "lookup"}.items()
        }
        tokens = {name: [written.tokens for written in run()] for name, run in ways.items()}
        times = seconds(ways, rounds)
        speeds = {name: sum(map(len, tokens[name])) / took for name, took in times.items()}
        ratio, same = speeds["lookup"] / speeds["plain"], "yes" if tokens["plain"] == tokens["lookup"] else "no"
        rows.append(f"| {engine} | {speeds['plain']:,.0f} | {speeds['lookup']:,.0f} | {ratio:.2f}× | {same} |")
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("translator", type=Path)
    parser.add_argument("language_model", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--lines", type=int, default=400)
    add_results(parser)
    arguments = parser.parse_args()
    if "REGARD_DATA" not in os.environ:
        sys.exit("Set REGARD_DATA to the folder that holds multi30k.")
    data = Path(os.environ["REGARD_DATA"]) / "multi30k"
    short = shortlisted(arguments.translator, data, arguments.lines, arguments.rounds)
    drafts = guessed(arguments.language_model, arguments.rounds)
    section = "\n".join([f"{cpu()}, {arguments.rounds} rounds.", "", *short, "", *drafts])
    print(section)
    put(arguments.results, "Shortlists and guesses", f"`python benchmarks/shortcuts.py`: {section}")


if __name__ == "__main__":
    main()
