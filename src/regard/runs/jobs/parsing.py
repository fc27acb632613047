"""Constituency parsing: from trees, one per line, to a model that writes brackets for a sentence (`data/trees.py`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from regard.core.config import Config
from regard.core.paths import expand_path
from regard.data import arrays, token_pairs
from regard.data.parallel import Report, TokenPairs, encode
from regard.data.trees import Tree, read_trees
from regard.runs.jobs.translation import TranslationJob
from regard.runs.setup import Say, TokenizerConfig
from regard.tasks.parsing import Parsing

_LABELS = 10_000  # vocabulary size that is larger than the number of brackets


class TreeFiles(Config):
    trees: str = Field(description="a file of trees, one per line (plain, .gz or .xz)")

    def read(self) -> list[Tree]:
        return read_trees(expand_path(self.trees))


class ParsingData(Config):
    train: TreeFiles
    validation: TreeFiles | None = None
    tokenizer: TokenizerConfig = TokenizerConfig()
    """The vocabulary of the words; brackets have their own."""
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
        return TokenizerConfig(kind="space", vocab_size=_LABELS) if side == "target" else own

    def texts(self) -> dict[str, Callable[[], Iterable[str]]]:
        return {"source": lambda: self._sides(0), "target": lambda: self._sides(1)}

    def cuts(self) -> None:
        """None: a word is always split into the same tokens."""

    def _sides(self, side: int) -> Iterator[str]:
        return (_pair(tree)[side] for tree in self.data.train.read())

    def material(self) -> dict[str, Any]:
        assert self.data.validation is not None
        trees = self.data.validation.read()
        pairs = [_pair(tree) for tree in trees]
        return {
            "inputs": [words for words, _ in pairs],
            "references": [[str(tree)] for tree in trees],
            "trees": trees,
        }

    def _encoded(self, files: TreeFiles, place: Path, say: Say) -> TokenPairs:  # type: ignore[override]
        assert self.tokenizer is not None
        assert self.target_tokenizer is not None
        if not arrays.holds(place, token_pairs.KIND):
            report, pairs = Report(), [_pair(tree) for tree in files.read()]
            report.pairs = len(pairs)
            encode(pairs, self.tokenizer, self.target_tokenizer, place, max_tokens=self.data.max_tokens, report=report)
            say(f"{place.name}: {report.summary()}")
        return TokenPairs.open(place)


def _pair(tree: Tree) -> tuple[str, str]:
    """The words and the brackets, as text."""
    return " ".join(tree.words), " ".join(tree.tokens())
