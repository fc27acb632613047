"""See attention work, in a few seconds: the lectures' example of four keys A A B A."""

from __future__ import annotations

import argparse


def configure(parser: argparse.ArgumentParser) -> None:
    pass


def run(arguments: argparse.Namespace) -> int:
    from rich.console import Console

    from regard import api
    from regard.cli._heatmap import heat_map

    found = api.four_keys()
    console = Console(highlight=False)
    console.print("\nFour keys A A B A, with A = (1, 0) and B = (0, 1). Which of them does a query for B look at?\n")
    console.print(heat_map(found.weights, found.queries, found.keys))
    console.print("\nWhat comes back, the values mixed by those weights (here the values are the keys themselves):\n")
    for query, (first, second) in zip(found.queries, found.contexts, strict=True):
        console.print(f"{query:>27}  ({first:.3f}, {second:.3f})")
    console.print(
        "\nThe average has almost forgotten the one B among the A; attention finds it.\n"
        "In Python:  regard.attend(query, keys, values, score='dot').weights\n"
        "Next: the README shows masks, windows, positions and how to watch every head of a model.\n"
    )
    return 0
