"""Turn a model into another library's form, or into regard's own.

--to hf writes a Hugging Face folder (config.json, model.safetensors, tokenizer), --to regard one of ours. The source
may be either, or a llama2.c checkpoint. Weights are the same to the bit, but those of a translator trained here: as
Hugging Face's Marian or Pegasus, which CTranslate2 reads too, it gives the same translations by other weights.
"""

from __future__ import annotations

import argparse
import sys


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", help="a model folder, or a llama2.c checkpoint")
    parser.add_argument("target", help="the folder to write")
    parser.add_argument("--to", required=True, choices=("hf", "regard"), help="the form to write")


def run(arguments: argparse.Namespace) -> int:
    from regard import api
    from regard.cli._inputs import opened

    opened_model = opened(arguments.source)
    for note in api.convert(opened_model, arguments.target, to=arguments.to):
        print(f"regard: note: {note}", file=sys.stderr)
    print(f"written to {arguments.target}")
    return 0
