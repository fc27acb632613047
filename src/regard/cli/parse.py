"""Parse sentences: their constituents, as brackets or as a drawn tree.

Sentences come from standard input, one per line, with spaces between words and punctuation: "Cats sleep ." Prints a
line of brackets for each sentence; an empty line stays empty. --tree draws the trees, --out tree.svg writes a picture
of the first.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from regard.cli._engine import add_engine, opened_with_engine
from regard.cli._progress import Progress
from regard.cli._search import add_search, search_options
from regard.cli._terminal import shown
from regard.core.errors import UsageError


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", help="a model folder")
    parser.add_argument("--tree", action="store_true", help="draw the trees")
    parser.add_argument("--out", metavar="FILE.svg", help="write a picture of the first tree instead")
    add_search(parser, nbest=False, output="tree", source="sentence", parts="words of the sentence")
    add_engine(parser)


def run(arguments: argparse.Namespace) -> int:
    from regard import api
    from regard.cli._lines import chunks, line_counter

    if arguments.out and Path(arguments.out).suffix != ".svg":
        raise UsageError("a tree is drawn as .svg", got=arguments.out)
    model, options = opened_with_engine(arguments), search_options(arguments)
    model.parse([], **options)
    number = 0
    with Progress("parsing", line_counter()) as progress:
        for lines in chunks():
            with progress.working():
                trees = model.parse(lines, first=number, on_progress=progress.on_progress, **options)
            number += len(lines)
            for tree in trees:
                if tree is None:
                    if not arguments.out:
                        print()
                elif arguments.out:
                    Path(arguments.out).write_text(api.tree_picture(tree), encoding="utf-8")
                    print(f"written to {arguments.out}")
                    return 0
                else:
                    print(shown("\n".join(api.tree_lines(tree)) if arguments.tree else str(tree)))
            sys.stdout.flush()
    if arguments.out:
        raise UsageError("there is no sentence to draw", remedy="Give one on standard input.")
    return 0
