"""BERT's pretraining: masked words and next sentences, judged with masks that stay the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field
from torch import nn

from regard.core.config import Config
from regard.core.errors import ConfigError
from regard.data.documents import Sentences, encode_documents, sentences
from regard.data.masked import MaskedRows
from regard.data.running_text import Documents, RunningText
from regard.data.text import Tokenizer
from regard.folder import ModelFolder
from regard.jobs._job import Say, model_config, model_name, rows_per_batch
from regard.jobs._text import Files, TextTokenizer, paths, vocabulary
from regard.recipe import Recipe
from regard.tasks import masked_lm as tasks


class MaskedLmData(Config):
    train: Files
    validation: Files | None = None
    tokenizer: TextTokenizer = TextTokenizer(kind="wordpiece", lowercase=True)
    max_len: int = Field(128, gt=7, description="tokens of a row, marks included")
    documents: Documents = Field("blank_lines", description="where a document ends")
    next_sentence: bool = Field(True, description="rows are pairs, and the model says whether they belong together")


class MaskedLmJob:
    Data = MaskedLmData
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "model": {"name": "bert"},
        "training": {"label_smoothing": 0.0},
    }
    metrics = ("loss", "mlm_accuracy", "nsp_accuracy")

    def __init__(self, recipe: Recipe, start: ModelFolder | None) -> None:
        assert isinstance(recipe.data, MaskedLmData)
        self.recipe, self.data, self.start = recipe, recipe.data, start
        self.task, self.validates = tasks.MaskedLm(), self.data.validation is not None
        self._tokenizer: Tokenizer | None = start.source_tokenizer if start is not None else None
        if recipe.training.metric == "nsp_accuracy" and not self.data.next_sentence:
            raise ConfigError("training.metric nsp_accuracy needs data.next_sentence")

    def files(self) -> list[Path]:
        return [*paths(self.data.train), *paths(self.data.validation)]

    def prepare(self, folder: Path, say: Say) -> None:
        text = RunningText(paths(self.data.train), self.data.documents)
        self._tokenizer = vocabulary(self.data.tokenizer, folder, _lines(text), self.start, marks="bert")
        self._train = self._encoded(text, folder / "train", say)
        if self.validates:
            held_out = RunningText(paths(self.data.validation), self.data.documents)
            self._held_out = self._encoded(held_out, folder / "validation", say)

    def model_config(self) -> Config:
        fixed: dict[str, Any] = {
            "vocab_size": self._tokenizer.vocab_size if self._tokenizer is not None else 8,
            "head": "pretraining" if self.data.next_sentence else "masked_lm",
        }
        if self.start is None and "max_len" not in self.recipe.model.options:
            fixed["max_len"] = self.data.max_len
        config = model_config(self.recipe, self.start, **fixed)
        longest = getattr(config, "max_len", None)
        if longest is not None and self.data.max_len > longest:
            raise ConfigError(
                "rows are longer than the model allows",
                got=f"data.max_len {self.data.max_len}",
                expected=f"at most max_len {longest}",
                remedy="Lower data.max_len, or raise max_len in model.options.",
            )
        return config

    def loader(self) -> MaskedRows:
        return self._rows(self._train, shuffle=True)

    def validate(self, model: nn.Module) -> dict[str, float]:
        """The loss as it is trained, its two parts, and the share of right answers."""
        judged = [self.task.judged(model, batch) for batch in self._rows(self._held_out, shuffle=False).epoch(0)]
        word_loss, words_right, words, pair_loss, pairs_right, pairs = (sum(each) for each in zip(*judged, strict=True))
        found = {"loss": word_loss / words, "mlm_loss": word_loss / words, "mlm_accuracy": words_right / words}
        if pairs:
            found |= {"nsp_loss": pair_loss / pairs, "nsp_accuracy": pairs_right / pairs}
            found["loss"] += pair_loss / pairs
        return found

    def stored(self, model: nn.Module) -> ModelFolder:
        name, config, tokenizer = model_name(self.recipe, self.start), self.model_config(), self._tokenizer
        return ModelFolder("masked_lm", name, config, model, tokenizer, tokenizer, self.recipe.search)

    def _encoded(self, text: RunningText, place: Path, say: Say) -> Sentences:
        assert self._tokenizer is not None
        if not (place / "meta.json").exists():
            made = encode_documents(text, self._tokenizer, place, longest=self.data.max_len - 3)
            say(f"{place.name}: {made.documents:,} documents, {len(made):,} sentences, {len(made.tokens):,} tokens")
        return Sentences.open(place)

    def _rows(self, text: Sentences, *, shuffle: bool) -> MaskedRows:
        assert self._tokenizer is not None
        training, longest = self.recipe.training, self.data.max_len
        return MaskedRows(
            text,
            self._tokenizer,
            max_len=longest,
            rows=rows_per_batch(training, longest),
            seed=training.seed,
            pairs=self.data.next_sentence,
            shuffle=shuffle,
        )


def _lines(text: RunningText) -> Iterator[str]:
    return (sentence for sentence in sentences(text) if sentence is not None)
