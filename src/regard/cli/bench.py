"""Measure how fast a model generates on this machine, with every engine.

Prints a table of tokens per second for one input and for several, greedy and with a beam, beside the limit of this
machine: weights are read from memory once for each token. Also says which engine `--engine auto` takes here, and why.
Inputs are random and lengths fixed, so that all engines do the same work; run nothing else meanwhile.
"""

from __future__ import annotations

import argparse

from regard.cli._inputs import opened
from regard.cli._progress import Progress
from regard.cli._terminal import shown_json


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", help="the folder of a translation model or a language model")
    parser.add_argument("--tokens", type=int, metavar="N", help="tokens to generate for each input (32)")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="rounds of measuring (3)")
    parser.add_argument("--threads", type=int, metavar="N", help="threads to use (all cores)")
    parser.add_argument("--json", action="store_true", help="print the numbers as one JSON object")
    parser.add_argument("--out", metavar="FILE", help="also write a picture or page: .svg, .png, .html or .json")


def run(arguments: argparse.Namespace) -> int:
    from rich.console import Console

    from regard import api

    out = api.output_file(arguments.out) if arguments.out else None
    test = api.SpeedTest(
        opened(arguments.model), tokens=arguments.tokens, rounds=arguments.rounds, threads=arguments.threads
    )
    with Progress("measuring", lambda: test.n_runs, unit="runs") as progress, progress.working():
        speeds = test.measure(progress.on_progress)
    if out is not None:
        api.view_speeds(speeds).save(out)
    if arguments.json:
        print(shown_json(speeds.as_dict(), allow_nan=False))
        return 0
    console = Console(highlight=False)
    for part in api.panels_for_terminal(api.view_speeds(speeds, curves=False), console.width):
        console.print(part)
    if out is not None:
        print(out)
    return 0
