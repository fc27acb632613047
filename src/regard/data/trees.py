"""Constituency trees: read from brackets, cleaned, and written as the tokens of a sequence.

    (S1 (S (NP-SBJ (NN Cats)) (VP (VBP sleep)) (. .)))
    words   Cats sleep .
    tokens  (S (NP XX )NP (VP XX )VP XX )S

Tokens follow Vinyals et al. (2015): a closing bracket has the label of its constituent, and all tags of words are `XX`,
since the model need not predict them. Frequent words may stand for themselves, as in `(NP Cats )NP`: a decoder that
reads them need not count the words so far to find its place in the sentence. Traces (-NONE-), constituents that are
empty without them, function tags (NP-SBJ, NP=2) and the outermost TOP, S1 or nameless bracket are removed. A line may
begin with a name and a tab.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from regard.core.errors import DataError
from regard.core.lines import read_lines
from regard.data.text._library import SPECIALS

LEAF = "XX"
_PARTS = re.compile(r"\(|\)|[^\s()]+")
_ROOTS = ("", "TOP", "S1", "ROOT")
_TRACE = "-NONE-"
_DEEPEST = 400
# The tags of GENIA's XML by their names in the Penn Treebank.
PENN = {"PERIOD": ".", "COMMA": ",", "COLON": ":", "LRB": "-LRB-", "RRB": "-RRB-", "LQT": "``", "RQT": "''",
        "PRPP": "PRP$", "WPP": "WP$"}  # fmt: skip


@dataclass
class Tree:
    """A constituent with parts, or a word under its tag."""

    label: str
    parts: list[Tree] = field(default_factory=list)
    word: str | None = None

    def leaves(self) -> Iterator[Tree]:
        """The words, from left to right."""
        pending = [self]
        while pending:
            tree = pending.pop()
            if tree.word is not None:
                yield tree
            pending += reversed(tree.parts)

    @property
    def words(self) -> list[str]:
        return [leaf.word or "" for leaf in self.leaves()]

    def tokens(self, known: Container[str] = ()) -> list[str]:
        """The sequence of brackets; words that are `known` stand for themselves."""
        if self.word is not None:
            return [self.word if self.word in known else LEAF]
        inside = [token for part in self.parts for token in part.tokens(known)]
        return [f"({self.label}", *inside, f"){self.label}"]

    def __str__(self) -> str:
        """In one line of brackets."""
        inside = self.word if self.word is not None else " ".join(map(str, self.parts))
        return f"({self.label} {inside})"


def parse(line: str, where: str = "the line") -> Tree:
    """A tree from a line of brackets, not cleaned."""
    text = line.rpartition("\t")[2].strip()
    root, open_trees = Tree(""), list[Tree]()
    open_trees.append(root)
    parts = _PARTS.findall(text)
    for place, part in enumerate(parts):
        if part == "(":
            open_trees.append(Tree(""))
            if len(open_trees) > _DEEPEST:
                raise _refused(where, text, f"brackets {_DEEPEST} deep")
        elif part == ")":
            if len(open_trees) < 2 or not (open_trees[-1].parts or open_trees[-1].word is not None):
                raise _refused(where, text, "a bracket that closes nothing")
            done = open_trees.pop()
            open_trees[-1].parts.append(done)
        elif parts[place - 1] == "(" and place:
            open_trees[-1].label = part
        elif open_trees[-1].word is None and not open_trees[-1].parts and len(open_trees) > 1:
            open_trees[-1].word = part
        else:
            raise _refused(where, text, f"{part!r} outside of a bracket of its own")
    if len(open_trees) != 1:
        raise _refused(where, text, "a bracket that is not closed")
    if len(root.parts) != 1:
        raise _refused(where, text, f"{len(root.parts)} trees")
    return root.parts[0]


def clean(tree: Tree) -> Tree | None:
    """The tree without traces, function tags, empty constituents and a meaningless root; None if nothing is left."""
    kept = _clean(tree)
    while kept is not None and kept.label in _ROOTS and len(kept.parts) == 1 and kept.parts[0].word is None:
        kept = kept.parts[0]
    if kept is not None and kept.word is not None:  # a lone word still is a tree
        kept = Tree("X", [kept])
    if kept is not None and kept.label in _ROOTS:
        kept = Tree("X", kept.parts)
    return kept


def _clean(tree: Tree) -> Tree | None:
    if tree.word is not None:
        return None if tree.label == _TRACE else Tree(PENN.get(tree.label, tree.label), word=tree.word)
    parts = [part for part in map(_clean, tree.parts) if part is not None]
    label = re.split(r"[-=|]", tree.label, maxsplit=1)[0] if not tree.label.startswith("-") else tree.label
    return Tree(label, parts) if parts else None


def read_trees(path: str | Path) -> list[Tree]:
    """The clean trees of a file (plain, .gz or .xz), one per line."""
    trees = []
    for number, line in enumerate(read_lines(path), start=1):
        if line.strip():
            tree = clean(parse(line, f"line {number} of {path}"))
            if tree is not None:
                trees.append(tree)
    if not trees:
        raise DataError(f"{path} holds no tree", expected="lines such as (S (NP (NN word)) …)")
    return trees


def words_of(pieces: Sequence[str]) -> list[str]:
    """The words of a vocabulary of trees: neither brackets nor special tokens nor `XX`."""
    return [piece for piece in pieces if piece[:1] not in ("(", ")") and piece not in (*SPECIALS, LEAF)]


def from_tokens(tokens: Sequence[str], words: Sequence[str]) -> Tree:
    """The tree that well-formed tokens describe, over these words."""
    left = iter(words)
    if sum(token[:1] not in ("(", ")") for token in tokens) != len(words):
        raise DataError("the brackets do not hold the words", got=" ".join(tokens)[:80], expected=f"{len(words)} words")
    root = Tree("")
    open_trees = [root]
    for token in tokens:
        if token.startswith("("):
            open_trees.append(Tree(token[1:]))
        elif token.startswith(")"):
            done = open_trees.pop()
            if not open_trees or done.label != token[1:]:
                raise DataError("the brackets do not match", got=" ".join(tokens)[:80])
            open_trees[-1].parts.append(done)
        else:
            open_trees[-1].parts.append(Tree(LEAF, word=next(left)))
    if len(root.parts) != 1 or len(open_trees) != 1:
        raise DataError("the brackets are not one tree over the words", got=" ".join(tokens)[:80])
    return root.parts[0]


def spans(tree: Tree, dropped: Sequence[bool] = ()) -> list[tuple[str, int, int]]:
    """Label, first word and end of every constituent. Words that are `dropped` are not counted, and constituents that
    are empty without them are left out."""
    constituents: list[tuple[str, int, int]] = []
    place = count = 0

    def visit(part: Tree) -> None:
        nonlocal place, count
        if part.word is not None:
            count += not (place < len(dropped) and dropped[place])
            place += 1
            return
        start = count
        for inner in part.parts:
            visit(inner)
        if count > start:
            constituents.append((part.label, start, count))

    visit(tree)
    return constituents


def _refused(where: str, text: str, got: str) -> DataError:
    return DataError(f"{where} is not a tree: {text[:60]!r}", got=got, expected="(S (NP (NN word)) …)")
