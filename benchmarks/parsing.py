"""A parser of GENIA's abstracts on its own and on another domain, beside trees that branch to the right.

    python benchmarks/parsing.py out/genia_parser      # GENIA's development part, and 1,000 sentences of CRAFT

Labelled F1 as evalb counts it. Every output is checked: brackets that balance, over exactly the sentence's words. CRAFT
has whole articles on biology; its sentences are drawn with a fixed seed from those of at most `--longest` words.
"""

from __future__ import annotations

import argparse
import random
import time

import regard
from regard.core.errors import DataError
from regard.core.lines import read_lines
from regard.core.paths import expand_path
from regard.data.trees import Tree, clean, parse, read_trees
from regard.evaluation.brackets import right_branching, score

FOLDER = expand_path("$REGARD_DATA/treebank")
_SPELT = {"[": "-LSB-", "]": "-RSB-", "{": "-LCB-", "}": "-RCB-"}


def craft(count: int, longest: int) -> list[Tree]:
    """Sentences of CRAFT that are drawn at random. A few lines of the file are no trees."""
    trees, refused = list[Tree](), 0
    for line in read_lines(FOLDER / "craft.trees.tsv.xz"):
        try:
            tree = clean(parse(line))
        except DataError:
            refused += 1
            continue
        if tree is not None and len(tree.words) <= longest:
            trees.append(tree)
    print(f"CRAFT: {len(trees):,} sentences to draw from; {refused} lines are no trees")
    return random.Random(1).sample(trees, count)


def well_formed(texts: list[str], trees: list[Tree]) -> float:
    """The share of lines that are a tree over the sentence's words, which are spelt as `regard parse` spells them."""
    good = 0
    for text, tree in zip(texts, trees, strict=True):
        balanced = text.count("(") == text.count(")")
        good += balanced and parse(text).words == [_SPELT.get(word, word) for word in tree.words]
    return good / len(trees)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--beams", type=int, nargs="+", default=[1, 5])
    parser.add_argument("--sentences", type=int, default=1000, help="of CRAFT")
    parser.add_argument("--longest", type=int, default=80, help="words of a sentence of CRAFT, at most")
    options = parser.parse_args()
    model = regard.load(options.model)
    sets = {
        "GENIA, development": read_trees(FOLDER / "genia_dev.trees.gz"),
        "CRAFT": craft(options.sentences, options.longest),
    }
    for name, trees in sets.items():
        base = score((tree, right_branching(tree)) for tree in trees)
        print(f"{name}, {len(trees):,} sentences. Branching to the right: F1 {100 * base.f1:.1f}", flush=True)
        for beam in options.beams:
            started = time.process_time()
            texts = [str(tree) for tree in model.parse([" ".join(tree.words) for tree in trees], beam=beam)]
            spent = time.process_time() - started
            ours = score((tree, parse(text)) for tree, text in zip(trees, texts, strict=True))
            print(
                f"  beam {beam}: F1 {100 * ours.f1:.1f}, precision {100 * ours.precision:.1f}, recall "
                f"{100 * ours.recall:.1f}, {100 * ours.exact:.1f} % all right, {100 * well_formed(texts, trees):.1f} % "
                f"well-formed, {spent:.0f} s",
                flush=True,
            )


if __name__ == "__main__":
    main()
