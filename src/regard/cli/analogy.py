"""Complete an analogy of words: A is to B as C is to …

The best words by 3CosAdd (the cosine with b − a + c) and by 3CosMul (the products of cosines) are printed side by side.
"""

from __future__ import annotations

import argparse
from typing import Any

from regard.cli._terminal import shown, shown_json


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", help="a model folder, or a file of word vectors (word2vec, GloVe)")
    for name in ("a", "b", "c"):
        parser.add_argument(name, metavar=name.upper())
    parser.add_argument("--top", type=int, default=5, help="answers by each method (default: 5)")
    parser.add_argument("--json", action="store_true", help="write one JSON object")


def run(arguments: argparse.Namespace) -> int:
    from regard.cli._inputs import opened

    model, given = opened(arguments.model), (arguments.a, arguments.b, arguments.c)
    answers: dict[str, Any] = {
        name: model.analogy(*given, top=arguments.top, method=method)
        for name, method in (("3CosAdd", "add"), ("3CosMul", "mul"))
    }
    if arguments.json:
        listed = {name: [{"word": w, "score": s} for w, s in best] for name, best in answers.items()}
        print(shown_json({"a": arguments.a, "b": arguments.b, "c": arguments.c, **listed}))
        return 0
    print(f"{'3CosAdd':30}  3CosMul")
    for (first, added), (second, multiplied) in zip(*answers.values(), strict=True):
        print(shown(f"{added:.4f}  {first:22}  {multiplied:.4f}  {second}"))
    return 0
