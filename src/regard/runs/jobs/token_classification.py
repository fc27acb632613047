"""A class for each word: parts of speech, read off the leaves of constituency trees."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import Field

from regard.core.config import Config
from regard.data.tagged import Tagged, TaggedRows, read_tagged
from regard.models import reads_cls
from regard.runs.jobs._classes import known_classes
from regard.runs.jobs._files import Files, paths
from regard.runs.setup import ClsSetup, Say, TokenizerConfig, as_usual
from regard.tasks.token_classification import TokenClassification

_WORDS = TokenizerConfig(kind="space", vocab_size=30_000, min_count=2)


class TokenClassificationData(Config):
    train: Files = Field(description="constituency trees, one per line")
    validation: Files | None = None
    tokenizer: Annotated[TokenizerConfig, as_usual(_WORDS)] = _WORDS
    max_len: int = Field(256, gt=3, description="tokens per row, special tokens included; longer sentences are cut")
    max_rows: int | None = Field(None, gt=0, description="most sentences per batch")


class TokenClassificationJob(ClsSetup):
    Data = TokenClassificationData
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "model": {"name": "rnn"},
        "training": {"label_smoothing": 0.0, "metric": "accuracy"},
    }
    data: TokenClassificationData

    def task(self) -> TokenClassification:
        return TokenClassification(label_smoothing=self.recipe.training.label_smoothing)

    def files(self) -> list[Path]:
        return [*paths(self.data.train), *paths(self.data.validation)]

    def fixed_options(self) -> dict[str, Any]:
        return {"head": "token_classes"}

    def texts(self) -> dict[str, Callable[[], Iterable[str]]]:
        return {"source": lambda: (" ".join(sentence.words) for sentence in self._train)}

    def encode(self, folder: Path, say: Say) -> tuple[TaggedRows, TaggedRows | None]:
        train = self._rows(self._train)
        say(f"train: {len(train):,} sentences, {len(self.tags)} tags")
        if not self.validates:
            return train, None
        held_out = self._rows([sentence for path in paths(self.data.validation) for sentence in read_tagged(path)])
        say(f"validation: {len(held_out):,} sentences")
        return train, held_out

    def sizes(self) -> dict[str, Any]:
        return {"n_labels": len(self.tags)}

    def extra(self) -> dict[str, Any]:
        return {"labels": self.tags, "max_len": self.data.max_len}

    @cached_property
    def tags(self) -> list[str]:
        """The tags of the model to start from if it has those of the training sentences, else these by alphabet."""
        tags = sorted({tag for sentence in self._train for tag in sentence.tags})
        known = known_classes(self, tags)
        return tags if known is None else known

    @cached_property
    def _train(self) -> list[Tagged]:
        return [sentence for path in paths(self.data.train) for sentence in read_tagged(path)]

    def _rows(self, sentences: list[Tagged]) -> TaggedRows:
        assert self.tokenizer is not None
        cls = reads_cls(self.model_name)
        return TaggedRows(self.tokenizer, sentences, self.tags, max_len=self.data.max_len, cls=cls)
