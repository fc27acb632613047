"""Fill the gaps of a text: write [MASK] in place of each missing word."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from regard.cli._inputs import add_inputs, batches, opened
from regard.cli._terminal import shown, shown_json


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", help="a model folder")
    add_inputs(parser, what="text")
    parser.add_argument("--top", type=int, default=5, metavar="N", help="number of words for each gap")


def run(arguments: argparse.Namespace) -> int:
    model: Any = opened(arguments.model)
    for lines in batches(arguments):
        for line, gaps in zip(lines, model.fill(lines, top=arguments.top), strict=True):
            if arguments.json:
                listed = [
                    [
                        {"token": candidate.token, "probability": candidate.probability, "text": candidate.text}
                        for candidate in gap
                    ]
                    for gap in gaps
                ]
                print(shown_json({"input": line, "gaps": listed}))
                continue
            for number, gap in enumerate(gaps, start=1):
                head = f"{number}\t" if len(gaps) > 1 else ""
                for candidate in gap:
                    print(shown(f"{head}{candidate.probability:.4f}\t{candidate.text}"))
        sys.stdout.flush()
    return 0
