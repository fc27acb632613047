"""Summarise standard input, one document per line.

Prints one line for each document, in order; an empty line stays empty. Documents that are longer than those that the
model was trained on are cut, and a note says how many.
"""

from __future__ import annotations

import argparse
import sys

from regard.cli._engine import add_engine, opened_with_engine
from regard.cli._inputs import tell_cut
from regard.cli._progress import Progress
from regard.cli._search import add_search, search_options
from regard.cli._terminal import shown, shown_json


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", help="a model folder")
    parser.add_argument("--json", action="store_true", help="write JSON lines with the documents")
    add_search(parser, nbest=False, output="summary", source="document", parts="words of the document")
    add_engine(parser)


def run(arguments: argparse.Namespace) -> int:
    from regard.cli._lines import chunks, line_counter

    model, options = opened_with_engine(arguments), search_options(arguments)
    model.summarise([], **options)  # refuses other models and bad options before anything is read
    number = 0
    with Progress("summarising", line_counter()) as progress:
        for documents in chunks():
            with progress.working():
                summaries = model.summarise(documents, first=number, on_progress=progress.on_progress, **options)
            number += len(documents)
            for document, summary in zip(documents, summaries, strict=True):
                print(shown_json({"text": document, "summary": summary}) if arguments.json else shown(summary))
            sys.stdout.flush()
    tell_cut(model)
    return 0
