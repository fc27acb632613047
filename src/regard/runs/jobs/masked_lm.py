"""BERT's pretraining: masked words and next sentences; validation masks the same words each time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from pydantic import Field

from regard.core.config import Config
from regard.core.errors import ConfigError
from regard.data import arrays, documents
from regard.data.documents import Sentences, encode_documents, sentences
from regard.data.masked import MaskedRows
from regard.data.running_text import Documents, RunningText
from regard.runs.jobs._files import Texts, paths, rows_per_batch, sources
from regard.runs.jobs._tables import WORDPIECE, WordPieces
from regard.runs.recipe import Recipe
from regard.runs.setup import ClsSetup, Say
from regard.store import StoredModel
from regard.tasks.masked_lm import MaskedLm


class MaskedLmData(Config):
    train: Texts
    validation: Texts | None = None
    tokenizer: WordPieces = WORDPIECE
    max_len: int = Field(128, gt=7, description="tokens per row, special tokens included")
    documents: Documents = Field("blank_lines", description="where a document ends")
    next_sentence: bool = Field(True, description="rows are pairs; the model predicts whether they belong together")


class MaskedLmJob(ClsSetup):
    Data = MaskedLmData
    unused = ("label_smoothing",)
    data: MaskedLmData

    def __init__(self, recipe: Recipe, start: StoredModel | None) -> None:
        super().__init__(recipe, start)
        if recipe.training.metric.startswith("nsp_") and not self.data.next_sentence:
            raise ConfigError(f"training.metric {recipe.training.metric} needs data.next_sentence")

    def task(self) -> MaskedLm:
        return MaskedLm()

    def files(self) -> list[Path]:
        return [*paths(self.data.train), *paths(self.data.validation)]

    def fixed_options(self) -> dict[str, Any]:
        return {"head": "pretraining" if self.data.next_sentence else "masked_lm"}

    def texts(self) -> dict[str, Callable[[], Iterable[str]]]:
        text = self._text(self.data.train)
        return {"source": lambda: (sentence for sentence in sentences(text) if sentence is not None)}

    def encode(self, folder: Path, say: Say) -> tuple[Sentences, Sentences | None]:
        train = self._encoded(self._text(self.data.train), folder / "train", say)
        if not self.validates:
            return train, None
        return train, self._encoded(self._text(self.data.validation), folder / "validation", say)

    def batches(self, examples: Sentences, *, shuffle: bool) -> MaskedRows:
        assert self.tokenizer is not None
        training, longest = self.recipe.training, self.data.max_len
        return MaskedRows(
            examples,
            self.tokenizer,
            max_len=longest,
            rows=rows_per_batch(training, longest),
            seed=training.seed,
            pairs=self.data.next_sentence,
            shuffle=shuffle,
        )

    def _text(self, files: Texts | None) -> RunningText:
        return RunningText(sources(files), self.data.documents)

    def _encoded(self, text: RunningText, place: Path, say: Say) -> Sentences:
        assert self.tokenizer is not None
        if not arrays.holds(place, documents.KIND):
            made = encode_documents(text, self.tokenizer, place, longest=self.data.max_len - 3)
            say(f"{place.name}: {made.documents:,} documents, {len(made):,} sentences, {len(made.tokens):,} tokens")
        return Sentences.open(place)
