"""Translate a file and score it against references: BLEU and chrF as sacrebleu defines them, with signatures."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from regard.cli._search import add_search, search_options


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", help="a model folder")
    parser.add_argument("--source", required=True, metavar="FILE", help="lines to translate (plain, .gz or .xz)")
    parser.add_argument("--reference", required=True, metavar="FILE", help="their translations")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--out", metavar="FILE", help="also write the translations")
    add_search(parser)


def run(arguments: argparse.Namespace) -> int:
    from regard import api

    model = api.load(arguments.model)
    source, reference = api.read_text(arguments.source), api.read_text(arguments.reference)
    scores, written = api.evaluate(model, source, reference, **search_options(arguments))
    if arguments.out:
        Path(arguments.out).write_text("".join(line + "\n" for line in written), encoding="utf-8")
    if arguments.json:
        print(json.dumps(asdict(scores)))
        return 0
    print(f"BLEU   {scores.bleu:6.2f}   {scores.bleu_signature}")
    print(f"chrF   {scores.chrf:6.2f}   {scores.chrf_signature}")
    print(f"BLEU   {scores.bleu_tokenised:6.2f}   of words as the files separate them (tokenize=none)")
    print(f"exact  {100 * scores.exact:6.2f}   % of {scores.lines} lines")
    return 0
