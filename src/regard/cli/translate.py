"""Translate standard input to standard output, line by line.

Prints one line for each input line, in order, as soon as it is ready; an empty line stays empty. With --nbest above 1
each line gives that many lines: line number, score and translation, separated by tabs. Several models that were trained
by one recipe with different seeds are an ensemble: they translate by the mean of their probabilities.
"""

from __future__ import annotations

import argparse
import json
import sys

from regard.cli._engine import add_engine, opened_with_engine
from regard.cli._progress import Progress
from regard.cli._search import add_search, search_options
from regard.cli._terminal import shown, shown_json


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", nargs="+", help="a model folder; several translate together, as an ensemble")
    parser.add_argument("--alignments", metavar="FILE", help="also write the attention of each word, as JSON lines")
    parser.add_argument("--json", action="store_true", help="write JSON lines with scores")
    parser.add_argument("--shortlist", metavar="FILE", help="choose from the tokens of this file: regard shortlist")
    add_search(parser)
    add_engine(parser)


def run(arguments: argparse.Namespace) -> int:
    from regard.cli._lines import chunks, line_counter

    model, options = opened_with_engine(arguments), search_options(arguments)
    if arguments.shortlist is not None:
        options["shortlist"] = arguments.shortlist
    model.translate([], **options)  # refuses models that do not translate, and bad options, before anything is read
    several = options.get("nbest", model.stored.search.nbest) > 1
    alignments = open(arguments.alignments, "w", encoding="utf-8") if arguments.alignments else None  # noqa: SIM115
    number = 0
    with Progress("translating", line_counter()) as progress:
        for lines in chunks():
            with progress.working():
                results = model.translate_nbest(lines, first=number, on_progress=progress.on_progress, **options)
            for line, translations in zip(lines, results, strict=True):
                number += 1
                for translation in translations:
                    print(_shown(arguments, number, translation, several=several))
                if alignments is not None:
                    seen = model.align(line, tokens=translations[0].tokens) if line.strip() else None
                    alignments.write(json.dumps(seen and seen.as_dict(), ensure_ascii=False) + "\n")
            sys.stdout.flush()
    if alignments is not None:
        alignments.close()
    return 0


def _shown(arguments: argparse.Namespace, number: int, translation: object, *, several: bool) -> str:
    from regard.api import Translation

    assert isinstance(translation, Translation)
    if arguments.json:
        facts = {"line": number, "text": translation.text, "score": translation.score, "log_prob": translation.log_prob}
        return shown_json(facts)
    return shown(f"{number}\t{translation.score:.4f}\t{translation.text}" if several else translation.text)
