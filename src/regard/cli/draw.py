"""Draw what a coordinate network has learnt: a picture as a file, or a signal as numbers, one per line.

regard draw MODEL --out picture.png             as large as the picture that it was trained on
regard draw MODEL --out large.png --size 512    at another resolution
regard draw MODEL --out numbers.txt             a signal; without --out it is printed
"""

from __future__ import annotations

import argparse

from regard.cli._inputs import opened
from regard.core.errors import UsageError

_SUFFIXES = (".png", ".jpg", ".jpeg", ".webp")
_TEXT = (".txt", ".csv")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("model", help="a model folder")
    parser.add_argument("--out", metavar="FILE", help=f"a picture: {', '.join(_SUFFIXES)}; numbers: {', '.join(_TEXT)}")
    parser.add_argument("--size", type=int, metavar="N", help="pixels per side, or points of a signal")


def run(arguments: argparse.Namespace) -> int:
    drawn = opened(arguments.model).draw(arguments.size)
    if isinstance(drawn, list):
        text = "".join(f"{number:.6g}\n" for number in drawn)
        if arguments.out is None:
            print(text, end="")
            return 0
        if not arguments.out.lower().endswith(_TEXT):
            raise UsageError("this model draws numbers", got=arguments.out, expected=f"--out with {', '.join(_TEXT)}")
        with open(arguments.out, "w", encoding="utf-8") as file:
            file.write(text)
    elif arguments.out is None or not arguments.out.lower().endswith(_SUFFIXES):
        raise UsageError("a picture needs a file", got=arguments.out, expected=f"--out with {', '.join(_SUFFIXES)}")
    else:
        drawn.save(arguments.out)
    print(arguments.out)
    return 0
