"""Describe images in words.

Prints one line for each image file: the file and its caption, separated by a tab. With --nbest above 1 each image gives
that many lines: file, score and caption.
"""

from __future__ import annotations

import argparse
import sys

from regard.cli._engine import add_engine, opened_with_engine
from regard.cli._inputs import add_inputs, batches
from regard.cli._search import add_search, search_options
from regard.cli._terminal import shown, shown_json


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", help="a model folder")
    add_inputs(parser, what="image")
    add_search(parser, output="caption", source="image", parts="parts of the image", max_source=False)
    add_engine(parser)


def run(arguments: argparse.Namespace) -> int:
    model, options = opened_with_engine(arguments), search_options(arguments)
    model.caption([], **options)  # refuses models that do not caption, and bad options, before anything is read
    several = options.get("nbest", model.stored.search.nbest) > 1
    done = 0
    for images in batches(arguments, most=32):
        every = model.caption_nbest(images, first=done, **options)
        done += len(images)
        for image, captions in zip(images, every, strict=True):
            for caption in captions:
                if arguments.json:
                    facts = {"image": image, "caption": caption.text, "score": caption.score}
                    print(shown_json({**facts, "log_prob": caption.log_prob}))
                else:
                    middle = f"{caption.score:.4f}\t" if several else ""
                    print(shown(f"{image}\t{middle}{caption.text}"))
        sys.stdout.flush()
    return 0
