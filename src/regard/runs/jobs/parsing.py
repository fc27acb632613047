"""Constituency parsing: from trees, one per line, to a model that writes brackets for a sentence (`data/trees.py`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from regard.core.config import Config
from regard.core.paths import expand_path
from regard.data import arrays, token_pairs
from regard.data.parallel import Report, TokenPairs, encode
from regard.data.trees import LEAF, Tree, read_trees, words_of
from regard.runs.jobs.translation import TranslationJob
from regard.runs.setup import Say, TokenizerConfig
from regard.tasks.parsing import Parsing

_TARGETS = 100_000  # vocabulary size that is larger than the number of brackets and words


class TreeFiles(Config):
    trees: str = Field(description="a file of trees, one per line (plain, .gz or .xz)")

    def read(self) -> list[Tree]:
        return read_trees(expand_path(self.trees))


class ParsingData(Config):
    train: TreeFiles
    validation: TreeFiles | None = None
    tokenizer: TokenizerConfig = TokenizerConfig()
    """The vocabulary of the words; brackets have their own."""
    leaf_words: int = Field(
        0,
        ge=0,
        description="words that occur at least this often are written as themselves, others as XX; 0: all as XX",
    )
    max_tokens: int = Field(256, gt=0, description="sentences with more words or brackets are left out of training")


class ParsingJob(TranslationJob):
    Data: ClassVar[type[Config]] = ParsingData
    joint = False
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {"model": {"name": "transformer"}}
    offers = ("inputs", "references", "trees")
    data: Any

    def task(self) -> Parsing:
        training = self.recipe.training
        return Parsing(label_smoothing=training.label_smoothing, r_drop=training.r_drop)

    def files(self) -> list[Path]:
        both = [files for files in (self.data.train, self.data.validation) if files is not None]
        return [expand_path(files.trees) for files in both]

    def tokenizer_config(self, side: str) -> TokenizerConfig:
        """Brackets are separated by spaces, and all of them are tokens."""
        own: TokenizerConfig = self.data.tokenizer
        return TokenizerConfig(kind="space", vocab_size=_TARGETS) if side == "target" else own

    def texts(self) -> dict[str, Callable[[], Iterable[str]]]:
        return {"source": lambda: self._sides(0), "target": lambda: chain([LEAF], self._sides(1))}

    @cached_property
    def _known(self) -> Container[str]:
        """The words that are written as themselves."""
        if self.target_tokenizer is not None:
            return set(words_of(self.target_tokenizer.pieces()))
        if not self.data.leaf_words:
            return ()
        counts = Counter(word for tree in self.data.train.read() for word in tree.words)
        return set(words_of([word for word, count in counts.items() if count >= self.data.leaf_words]))

    def cuts(self) -> None:
        """None: a word is always split into the same tokens."""

    def _sides(self, side: int) -> Iterator[str]:
        return (_pair(tree, self._known)[side] for tree in self.data.train.read())

    def material(self) -> dict[str, Any]:
        assert self.data.validation is not None
        trees = self.data.validation.read()
        return {
            "inputs": [" ".join(tree.words) for tree in trees],
            "references": [[str(tree)] for tree in trees],
            "trees": trees,
        }

    def _encoded(self, files: TreeFiles, place: Path, say: Say) -> TokenPairs:  # type: ignore[override]
        assert self.tokenizer is not None
        assert self.target_tokenizer is not None
        if not arrays.holds(place, token_pairs.KIND):
            report, pairs = Report(), [_pair(tree, self._known) for tree in files.read()]
            report.pairs = len(pairs)
            encode(pairs, self.tokenizer, self.target_tokenizer, place, max_tokens=self.data.max_tokens, report=report)
            say(f"{place.name}: {report.summary()}")
        return TokenPairs.open(place)


def _pair(tree: Tree, known: Container[str]) -> tuple[str, str]:
    """The words and the brackets, as text."""
    return " ".join(tree.words), " ".join(tree.tokens(known))
