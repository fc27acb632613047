"""Language modelling on running text, judged by the loss per token of a held-out text."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import Field, model_validator
from torch import nn

from regard.core.config import Config
from regard.core.errors import ConfigError
from regard.data.running_text import Documents, RunningText, TokenText, encode_text
from regard.data.text import Tokenizer
from regard.data.windows import Windows
from regard.folder import ModelFolder
from regard.jobs._job import Say, model_config, model_name, rows_per_batch
from regard.jobs._text import Files, TextTokenizer, paths, vocabulary
from regard.models import make_model
from regard.recipe import Recipe
from regard.tasks import language_model as tasks


class LanguageModelData(Config):
    train: Files
    validation: Files | None = None
    validation_share: float = Field(0.0, ge=0, lt=1, description="or so much of the training text, from its end")
    tokenizer: TextTokenizer = TextTokenizer()
    context: int = Field(256, gt=0, description="tokens that the model sees at once")
    documents: Documents = Field("none", description="where a document ends, and </s> is put")

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if self.validation is not None and self.validation_share:
            raise ValueError("validation and validation_share are two ways to say the same; give one")
        return self


class LanguageModelJob:
    Data = LanguageModelData
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "model": {"name": "gpt2"},
        "training": {"label_smoothing": 0.0},
        "search": {"beam": 1},
    }
    metrics = ("loss",)

    def __init__(self, recipe: Recipe, start: ModelFolder | None) -> None:
        assert isinstance(recipe.data, LanguageModelData)
        self.recipe, self.data, self.start = recipe, recipe.data, start
        self.task = tasks.LanguageModel(label_smoothing=recipe.training.label_smoothing)
        self.validates = self.data.validation is not None or self.data.validation_share > 0
        self._tokenizer: Tokenizer | None = start.source_tokenizer if start is not None else None

    def files(self) -> list[Path]:
        return [*paths(self.data.train), *paths(self.data.validation)]

    def prepare(self, folder: Path, say: Say) -> None:
        text = RunningText(paths(self.data.train), self.data.documents)
        held_out = RunningText(paths(self.data.validation), self.data.documents)
        if self.data.validation_share:
            text, held_out = text.split(self.data.validation_share)
        self._tokenizer = vocabulary(self.data.tokenizer, folder, _pieces(text), self.start)
        self._train = self._encoded(text, folder / "train", say)
        if self.validates:
            self._held_out = self._encoded(held_out, folder / "validation", say)

    def model_config(self) -> Config:
        fixed: dict[str, Any] = {"vocab_size": self._tokenizer.vocab_size if self._tokenizer is not None else 8}
        if self.start is not None and hasattr(self.start.config, "head"):
            fixed["head"] = "tokens"  # whatever it was used for before
        if self.start is None and "max_len" not in self.recipe.model.options:
            fixed["max_len"] = self.data.context
        config = model_config(self.recipe, self.start, **fixed)
        longest = getattr(make_model(model_name(self.recipe, self.start), config, empty=True), "longest", None)
        if longest is not None and self.data.context > longest:
            raise ConfigError(
                "the context is longer than the model allows",
                got=f"data.context {self.data.context}",
                expected=f"at most max_len {longest}",
                remedy="Lower data.context, or raise max_len in model.options.",
            )
        return config

    def loader(self) -> Windows:
        return self._windows(self._train, shuffle=True)

    def validate(self, model: nn.Module) -> dict[str, float]:
        """Loss and perplexity per token; and what other vocabularies can be compared by: per word, per character."""
        total, count, text = 0.0, 0, self._held_out
        for batch in self._windows(text, shuffle=False).epoch(0):
            log_probs = self.task.log_probs(model, batch)  # type: ignore[arg-type]
            total, count = total - log_probs.double().sum().item(), count + len(log_probs)
        return {
            "loss": total / count,
            "perplexity": _exp(total / count),
            "word_perplexity": _exp(total / max(text.words, 1)),
            "bits_per_character": total / math.log(2) / max(text.characters, 1),
        }

    def stored(self, model: nn.Module) -> ModelFolder:
        name, config, tokenizer = model_name(self.recipe, self.start), self.model_config(), self._tokenizer
        known = self.start.extra if self.start is not None else {}
        extra: dict[str, Any] = {key: known[key] for key in ("tokens", "begin") if key in known}
        return ModelFolder("language_model", name, config, model, tokenizer, tokenizer, self.recipe.search, extra=extra)

    def _encoded(self, text: RunningText, place: Path, say: Say) -> TokenText:
        assert self._tokenizer is not None
        if not (place / "meta.json").exists():
            made = encode_text(text, self._tokenizer, place, ends=self.data.documents != "none")
            say(f"{place.name}: {made.characters:,} characters, {len(made.tokens):,} tokens")
        return TokenText.open(place)

    def _windows(self, text: TokenText, *, shuffle: bool) -> Windows:
        training, context = self.recipe.training, self.data.context
        rows = rows_per_batch(training, context)
        return Windows(text.tokens, context=context, rows=rows, seed=training.seed, shuffle=shuffle)


def _pieces(text: RunningText) -> Iterator[str]:
    return (piece for piece in text.pieces() if piece is not None)


def _exp(loss: float) -> float:
    return math.exp(min(loss, 700))
