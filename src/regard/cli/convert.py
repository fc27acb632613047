"""Convert a model to another library's format, or to regard's own.

--to hf writes a Hugging Face folder (config.json, model.safetensors, tokenizer), --to regard one of ours, --to arpa
the ARPA file of an n-gram model. The source may be any of these, or a llama2.c checkpoint. Weights stay the same to
the bit, except for translators trained here: they become Hugging Face's Marian or Pegasus, which CTranslate2 reads
too, with other weights but the same translations.

Word vectors: --to word2vec, word2vec_binary or glove writes a file of that format, and the source may be such a file.
"""

from __future__ import annotations

import argparse
import sys


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", help="a model folder, a llama2.c checkpoint, an ARPA file, or a file of word vectors")
    parser.add_argument("target", help="the folder to write, or the file of an ARPA model or of word vectors")
    parser.add_argument(
        "--to",
        required=True,
        choices=("hf", "regard", "arpa", "word2vec", "word2vec_binary", "glove"),
        help="the format to write",
    )


def run(arguments: argparse.Namespace) -> int:
    from regard import api
    from regard.cli._inputs import opened

    opened_model = opened(arguments.source)
    for note in api.convert(opened_model, arguments.target, to=arguments.to):
        print(f"regard: note: {note}", file=sys.stderr)
    print(f"written to {arguments.target}")
    return 0
