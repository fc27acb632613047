"""List the words nearest to each word, by the cosine of their vectors.

--out words.svg (.png, .html, .json) draws the given words in the plane in which they differ most.
"""

from __future__ import annotations

import argparse
import sys

from regard.cli._terminal import one_line, shown, shown_json
from regard.core.errors import DataError


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", help="a model folder, or a file of word vectors (word2vec, GloVe)")
    parser.add_argument("words", nargs="+", metavar="WORD")
    parser.add_argument("--top", type=int, default=10, help="words for each (default: 10)")
    parser.add_argument("--out", metavar="FILE", help="draw the given words instead: .svg, .png, .html or .json")
    parser.add_argument("--json", action="store_true", help="write JSON lines")


def run(arguments: argparse.Namespace) -> int:
    from regard import api
    from regard.cli._inputs import opened

    place = api.output_file(arguments.out) if arguments.out else None
    model = opened(arguments.model)
    if place is not None:
        model.picture(arguments.words).save(place)
        print(f"written to {place}")
        return 0
    code = 0
    for word in arguments.words:
        try:
            (near,) = model.neighbours([word], top=arguments.top)
        except DataError as error:  # a word that is unknown does not hide the answers for the others
            print(f"regard: {one_line(str(error))}", file=sys.stderr)
            code = error.exit_code
            continue
        if arguments.json:
            print(shown_json({"word": word, "neighbours": [{"word": w, "cosine": c} for w, c in near]}))
            continue
        print(shown(word))
        for other, cosine in near:
            print(shown(f"  {cosine:.4f}  {other}"))
    return code
