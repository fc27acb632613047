"""Parses sentences: their constituents as brackets or as a drawn tree. Every output is a tree over the words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from regard.core.errors import UsageError
from regard.core.search import Search
from regard.data.tree_grammar import Brackets, TreeGrammar
from regard.data.trees import Tree, from_tokens
from regard.pipelines._verbs import verb
from regard.pipelines.translation import Grammar, Translation, TranslationPipeline

_RATIO, _EXTRA = 6.0, 20  # tokens of brackets for each token of the sentence, at most
_ESCAPED = {"(": "-LRB-", ")": "-RRB-", "[": "-LSB-", "]": "-RSB-", "{": "-LCB-", "}": "-RCB-"}


class ParsingPipeline(TranslationPipeline):
    """Words are separated by spaces, as treebanks have them: "Cats sleep ." has three."""

    usage = 'echo "…" | regard parse FOLDER'
    doing = "parse"

    @verb("a parser")
    def parse(self, sentences: Sequence[str], **options: Any) -> list[Tree | None]:
        """The best tree of each sentence; options are those of `Search`, such as beam=5. An empty one has no tree."""
        if isinstance(sentences, str):
            raise UsageError("parse takes a list of sentences", got="one string", remedy="Put it into a list.")
        lines = [_escaped(sentence) for sentence in sentences]
        outputs = self.translate_nbest(lines, **options)
        pieces = self.target_tokenizer.pieces()
        return [
            from_tokens([pieces[token] for token in output[0].tokens], line.split()) if line else None
            for output, line in zip(outputs, lines, strict=True)
        ]

    def translate_nbest(self, lines: Sequence[str], **options: Any) -> list[list[Translation]]:
        """The best sequences of brackets for each sentence."""
        return super().translate_nbest(lines, **{"max_ratio": _RATIO, "max_extra": _EXTRA, **options})

    def texts(self, inputs: Sequence[str], **search: Any) -> list[str]:
        return ["" if tree is None else str(tree) for tree in self.parse(inputs, **search)]

    def encode_source(self, lines: Sequence[str]) -> list[list[int]]:
        return super().encode_source([_escaped(line) for line in lines])

    def grammars(self, lines: Sequence[str], options: Search) -> list[Grammar]:
        brackets = Brackets(self.target_tokenizer.pieces(), self.end_token)
        longest = getattr(self.model, "longest", None)
        made: list[Grammar] = []
        for line, ids in zip(lines, self.encode_source(lines), strict=True):
            limit = options.limit(len(ids) + 1)
            made.append(TreeGrammar(brackets, line.split(), limit if longest is None else min(limit, longest)))
        return made


def _escaped(sentence: str) -> str:
    """Words with one space between them; brackets as treebanks spell them, and round ones inside words too."""
    words = [_ESCAPED.get(word, word) for word in sentence.split()]
    return " ".join(word.replace("(", _ESCAPED["("]).replace(")", _ESCAPED[")"]) for word in words)
