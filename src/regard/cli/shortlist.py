"""Make a shortlist for a translator: the tokens that a translation may contain, given the tokens of its source.

`regard translate MODEL --shortlist FILE` then computes its output layer for these tokens only, which is faster. A
translation that needs a token outside of the list changes, so measure the effect: regard evaluate MODEL
--shortlist FILE. The pairs of lines may be those that the model was trained on.
"""

from __future__ import annotations

import argparse


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", help="a model folder")
    parser.add_argument("--source", required=True, metavar="FILE", help="lines (plain, .gz or .xz)")
    parser.add_argument("--target", required=True, metavar="FILE", help="their translations, line by line")
    parser.add_argument("--out", required=True, metavar="FILE", help="the file to write, ending in .safetensors")
    parser.add_argument("--best", type=int, default=50, metavar="N", help="translations of each source token (50)")
    parser.add_argument("--frequent", type=int, default=200, metavar="N", help="tokens that are always allowed (200)")


def run(arguments: argparse.Namespace) -> int:
    from regard import api
    from regard.cli._inputs import opened

    model = opened(arguments.model)
    model.shortlist(
        api.read_text(arguments.source),
        api.read_text(arguments.target),
        arguments.out,
        best=arguments.best,
        frequent=arguments.frequent,
    )
    print(f"written to {arguments.out}")
    return 0
