"""Classes, or a number, for a text or a pair of texts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from regard.core.config import Config
from regard.core.errors import ConfigError, DataError
from regard.data.glue import GlueTask, glue_task
from regard.data.row_batches import RowBatches
from regard.data.tables import Example
from regard.data.text import Tokenizer
from regard.data.text_rows import TextRows
from regard.folder import ModelFolder
from regard.jobs._encoder import WORDPIECE, LabelledFile, check_marks, check_tokenizer, encoder_config, texts
from regard.jobs._job import Say, model_name
from regard.jobs._text import TextTokenizer, vocabulary
from regard.layout import layout, marked
from regard.recipe import Recipe, filled_in
from regard.tasks import classification as tasks
from regard.tasks import metrics

Metric = Literal["accuracy", "f1", "matthews", "pearson", "spearman"]
_MOST_CLASSES = 10_000


class ClassificationData(Config):
    train: LabelledFile | None = None
    validation: LabelledFile | None = None
    glue: str | None = Field(None, description="or the folder of a GLUE task, which says all but max_len")
    labels: tuple[str, ...] | None = Field(None, description="the classes in order; by default as training has them")
    regression: bool = Field(False, description="labels are numbers")
    metrics: tuple[Metric, ...] = Field((), description="what validation gives besides the loss")
    tokenizer: TextTokenizer = WORDPIECE
    max_len: int = Field(128, gt=3, description="tokens of a row, marks included; what is longer is cut")
    max_rows: int | None = Field(None, gt=0, description="most examples of a batch")

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.glue is None) == (self.train is None):
            raise ValueError("data is given as train (and validation), or as glue: expected one of the two")
        if self.glue is not None and (self.validation is not None or self.labels is not None or self.regression):
            raise ValueError("glue already says validation, labels and regression")
        known = metrics.OF_NUMBERS if self.regression else metrics.OF_CLASSES
        if self.glue is None and (odd := [name for name in self.metrics if name not in known]):
            kind = "a regression" if self.regression else "classes"
            raise ValueError(f"metrics: {', '.join(odd)} is not for {kind}, which has {', '.join(known)}")
        return self


class ClassificationJob:
    Data = ClassificationData
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "model": {"name": "bert"},
        "training": {"label_smoothing": 0.0},
    }
    metrics = ("loss", *metrics.OF_CLASSES, *metrics.OF_NUMBERS)

    def __init__(self, recipe: Recipe, start: ModelFolder | None) -> None:
        assert isinstance(recipe.data, ClassificationData)
        check_tokenizer(start)
        self.recipe, self.data, self.start = recipe, recipe.data, start
        self._name = model_name(recipe, start)
        self._glue: GlueTask | None = glue_task(filled_in(recipe.data.glue)) if recipe.data.glue else None
        self.regression = self._glue.regression if self._glue else self.data.regression
        self.validates = self._glue is not None or self.data.validation is not None
        self.task = tasks.Classification(
            regression=self.regression, label_smoothing=0.0 if self.regression else recipe.training.label_smoothing
        )
        usual = ("pearson", "spearman") if self.regression else ("accuracy",)
        self._metrics = tuple(dict.fromkeys([*usual, *(self._glue.metrics if self._glue else ()), *self.data.metrics]))
        if (wanted := recipe.training.metric) not in ("loss", *self._metrics):
            raise ConfigError(
                "training.metric is not what validation gives",
                got=wanted,
                expected=f"one of loss, {', '.join(self._metrics)}",
                remedy="Name it in data.metrics.",
            )
        self._tokenizer: Tokenizer | None = start.source_tokenizer if start is not None else None
        self.labels: tuple[str, ...] = tuple(self._glue.classes.values()) if self._glue else self.data.labels or ()
        self._pairs = False

    def files(self) -> list[Path]:
        if self._glue is not None and self.data.glue is not None:
            return [self._glue.path(filled_in(self.data.glue), split) for split in ("train", "dev")]
        return [one.path() for one in (self.data.train, self.data.validation) if one is not None]

    def prepare(self, folder: Path, say: Say) -> None:
        train, held_out = self._examples("train"), self._examples("dev") if self.validates else []
        if not self.regression and not self.labels:
            self.labels = classes(train)
        self._pairs = train[0].other is not None
        self._tokenizer = vocabulary(self.data.tokenizer, folder, texts(train), self.start, marks="bert")
        if marked(self._name):
            check_marks(self._tokenizer)
        self._train = self._rows(train)
        say(f"train: {len(self._train):,} rows" + (f", {len(self.labels)} classes" if self.labels else ""))
        if held_out:
            self._held_out, self._wanted = self._rows(held_out), self._targets(held_out)
            say(f"validation: {len(self._held_out):,} rows")

    def model_config(self) -> Config:
        n_labels = 1 if self.regression else max(len(self.labels), 2)
        return encoder_config(
            self.recipe, self.start, self._tokenizer, self.data.max_len, head="classes", n_labels=n_labels
        )

    def loader(self) -> RowBatches:
        return self._batches(self._train, shuffle=True)

    def validate(self, model: nn.Module) -> dict[str, float]:
        """The mean loss and what `data.metrics` asks for."""
        logits, loss = self.task.judged(model, self._batches(self._held_out, shuffle=False).epoch(0))
        return {"loss": loss, **scores(logits, self._wanted, self._metrics)}

    def stored(self, model: nn.Module) -> ModelFolder:
        config, tokenizer = self.model_config(), self._tokenizer
        extra: dict[str, Any] = {"regression": True} if self.regression else {"labels": list(self.labels)}
        extra |= {"pairs": self._pairs, "max_len": self.data.max_len, **self._beginning()}
        return ModelFolder("classification", self._name, config, model, tokenizer, tokenizer, extra=extra)

    def _beginning(self) -> dict[str, Any]:
        """What the model to start from says of the mark that a text begins with."""
        known = self.start.extra if self.start is not None and not marked(self._name) else {}
        return {key: known[key] for key in ("tokens", "begin") if key in known}

    def _examples(self, split: str) -> list[Example]:
        if self._glue is not None and self.data.glue is not None:
            return self._glue.examples(filled_in(self.data.glue), split)
        file = self.data.train if split == "train" else self.data.validation
        assert file is not None
        return file.examples()

    def _rows(self, examples: Sequence[Example]) -> TextRows:
        assert self._tokenizer is not None
        lay = layout(self._name, self._beginning())
        return TextRows(self._tokenizer, examples, self._targets(examples), max_len=self.data.max_len, lay=lay)

    def _targets(self, examples: Sequence[Example]) -> Tensor:
        return numbers(examples) if self.regression else class_numbers(examples, self.labels)

    def _batches(self, rows: TextRows, *, shuffle: bool) -> RowBatches:
        training = self.recipe.training
        budget, most = training.tokens_per_batch, self.data.max_rows
        return RowBatches(rows, tokens_per_batch=budget, seed=training.seed, max_rows=most, shuffle=shuffle)


def scores(logits: Tensor, wanted: Tensor, names: Sequence[str]) -> dict[str, float]:
    """The metrics of logits [N,C], or of one number each [N,1]."""
    judges = {**metrics.OF_CLASSES, **metrics.OF_NUMBERS}
    said = {name: logits.squeeze(-1) if name in metrics.OF_NUMBERS else logits.argmax(-1) for name in names}
    return {name: judges[name](said[name].numpy(), wanted.numpy()) for name in names}


def classes(examples: Sequence[Example]) -> tuple[str, ...]:
    """The classes that there are, numbers in their own order, names by the alphabet."""
    found = sorted({one.label for one in examples})
    if not 1 < len(found) <= _MOST_CLASSES:
        raise DataError(
            "the labels make no classes",
            got=f"{len(found)} different ones",
            expected=f"2 to {_MOST_CLASSES}",
            remedy="Check data's label column; for numbers set data.regression.",
        )
    numeric = all(label.isascii() and label.isdigit() for label in found)
    return tuple(sorted(found, key=int) if numeric else found)


def class_numbers(examples: Sequence[Example], labels: Sequence[str]) -> Tensor:
    places = {label: number for number, label in enumerate(labels)}
    for row, one in enumerate(examples, 1):
        if one.label not in places:
            known = ", ".join(labels[:10]) + ("…" if len(labels) > 10 else "")
            raise DataError(f"row {row} has a label that is no class", got=repr(one.label[:40]), expected=known)
    return torch.tensor([places[one.label] for one in examples])


def numbers(examples: Sequence[Example]) -> Tensor:
    """Labels as numbers."""
    found = []
    for row, one in enumerate(examples, 1):
        try:
            found.append(float(one.label))
        except ValueError:
            found.append(math.nan)
        if not math.isfinite(found[-1]):
            raise DataError(f"row {row} has a label that is no number", got=repr(one.label[:40]))
    return torch.tensor(found)
