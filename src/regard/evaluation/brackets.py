"""Labelled brackets, counted as evalb does with Collins' settings: precision, recall and their harmonic mean.

Words whose gold tag is punctuation (, . : `` '') are removed from both trees; brackets that are left empty do not
count, nor does the outermost TOP. ADVP and PRT are the same label. A bracket that occurs twice (a chain of two equal
labels) must be predicted twice. The counts of all sentences are added up before they are divided.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from regard.data.trees import Tree, spans

_PUNCTUATION = {",", ".", ":", "``", "''"}
_SAME = {"PRT": "ADVP"}


@dataclass(frozen=True)
class BracketScores:
    precision: float
    recall: float
    f1: float
    exact: float
    """The share of sentences all of whose brackets are right."""


def score(pairs: Iterable[tuple[Tree, Tree]]) -> BracketScores:
    """The scores of predicted trees; `pairs` has (gold, predicted) over the same words for each sentence."""
    right = gold = predicted = sentences = perfect = 0
    for wanted, given in pairs:
        dropped = [leaf.label in _PUNCTUATION for leaf in wanted.leaves()]
        ours, theirs = (Counter(_brackets(tree, dropped)) for tree in (given, wanted))
        common = sum((ours & theirs).values())
        right, gold, predicted = right + common, gold + sum(theirs.values()), predicted + sum(ours.values())
        sentences, perfect = sentences + 1, perfect + (ours == theirs)
    precision, recall = right / max(predicted, 1), right / max(gold, 1)
    f1 = 2 * precision * recall / (precision + recall) if right else 0.0
    return BracketScores(precision, recall, f1, perfect / max(sentences, 1))


def right_branching(gold: Tree) -> Tree:
    """The baseline: every word but the last opens a constituent that holds all following words, with the most common
    labels (S for the outermost, else NP); a punctuation mark at the end stays outside."""
    leaves = list(gold.leaves())
    end = leaves.pop() if len(leaves) > 1 and leaves[-1].label in _PUNCTUATION else None
    tree = Tree("NP", leaves[-1:])
    for leaf in reversed(leaves[:-1]):
        tree = Tree("NP", [leaf, tree])
    return Tree("S", [*tree.parts, *([] if end is None else [end])])


def _brackets(tree: Tree, dropped: list[bool]) -> list[tuple[str, int, int]]:
    return [(_SAME.get(label, label), start, end) for label, start, end in spans(tree, dropped)]
