"""Show which source words each target word attends to, for your own translation or the model's."""

from __future__ import annotations

import argparse

from regard.cli._search import add_search, search_options
from regard.cli._terminal import shown


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", help="a model folder")
    parser.add_argument("source", help="the text")
    parser.add_argument("target", nargs="?", help="its translation; by default the model's own")
    parser.add_argument("--site", help="one attention site, such as decoder.3.cross (default: the mean of all)")
    parser.add_argument("--head", type=int, help="one head of it")
    parser.add_argument("--pieces", action="store_true", help="show the tokenizer's pieces, not whole words")
    parser.add_argument("--out", metavar="FILE", help="write a picture, page or data instead: .svg .png .html .json")
    add_search(parser, nbest=False)


def run(arguments: argparse.Namespace) -> int:
    from rich.console import Console

    from regard import api

    model = api.load(arguments.model)
    alignment = model.align(arguments.source, arguments.target, pieces=arguments.pieces, **search_options(arguments))
    picture = alignment.picture(arguments.site, arguments.head)
    if arguments.out:
        api.write_alignment(alignment, arguments.out, site=arguments.site, head=arguments.head)
        print(shown(f"{arguments.out}  ({len(alignment.sites)} sites: {', '.join(alignment.sites)})"))
        return 0
    console = Console(highlight=False)
    console.print(*api.panels_for_terminal(picture, console.width), sep="\n")
    console.print(shown(f"sites: {', '.join(alignment.sites)}"), markup=False)
    return 0
