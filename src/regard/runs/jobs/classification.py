"""Classification or regression of a text or a pair of texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, model_validator
from torch import Tensor

from regard.core.config import Config
from regard.core.errors import ConfigError
from regard.core.paths import expand_path
from regard.data.chance import Dice
from regard.data.glue import GlueTask, glue_task
from regard.data.labels import class_numbers, classes, numbers
from regard.data.tables import Example
from regard.data.text.layout import layout
from regard.data.text_rows import TextRows
from regard.evaluation import metrics
from regard.evaluation.evaluators import Evaluator, make_evaluator
from regard.models import check_words, reads_cls, row_layout
from regard.runs.jobs._classes import known_classes
from regard.runs.jobs._tables import WORDPIECE, LabelledFile, WordPieces, all_texts
from regard.runs.recipe import Recipe
from regard.runs.setup import ClsSetup, Say
from regard.store import StoredModel
from regard.tasks.classification import Classification

Metric = Literal["accuracy", "f1", "matthews", "pearson", "spearman"]


class ClassificationData(Config):
    train: LabelledFile | None = None
    validation: LabelledFile | None = None
    glue: str | None = Field(None, description="or the folder of a GLUE task, which sets all but max_len")
    labels: tuple[str, ...] | None = Field(None, description="the classes in order; by default those in training")
    regression: bool = Field(False, description="labels are numbers")
    metrics: tuple[Metric, ...] = Field((), description="validation metrics besides the loss")
    tokenizer: WordPieces = WORDPIECE
    max_len: int = Field(128, gt=3, description="tokens per row, special tokens included; longer texts are cut")
    max_rows: int | None = Field(None, gt=0, description="most examples per batch")
    train_rows: int | None = Field(
        None, gt=0, description="train on only this many examples, drawn by training.seed; the rest is not read"
    )

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.glue is None) == (self.train is None):
            raise ValueError("give either train (and validation) or glue")
        if self.glue is not None and (self.validation is not None or self.labels is not None or self.regression):
            raise ValueError("glue already sets validation, labels and regression")
        known = metrics.OF_NUMBERS if self.regression else metrics.OF_CLASSES
        if self.glue is None and (odd := [name for name in self.metrics if name not in known]):
            kind = "a regression" if self.regression else "classes"
            raise ValueError(f"metrics: {', '.join(odd)} is not a metric of {kind}, which has {', '.join(known)}")
        return self


class ClassificationJob(ClsSetup):
    Data = ClassificationData
    data: ClassificationData

    def __init__(self, recipe: Recipe, start: StoredModel | None) -> None:
        super().__init__(recipe, start)
        self._glue: GlueTask | None = glue_task(expand_path(self.data.glue)) if self.data.glue else None
        self.regression = self._glue.regression if self._glue else self.data.regression
        self.offers = ("numbers",) if self.regression else ("classes",)

    @property
    def validates(self) -> bool:
        return self._glue is not None or self.data.validation is not None

    def task(self) -> Classification:
        smoothing = 0.0 if self.regression else self.recipe.training.label_smoothing
        return Classification(regression=self.regression, label_smoothing=smoothing)

    def files(self) -> list[Path]:
        if self._glue is not None and self.data.glue is not None:
            return [self._glue.path(expand_path(self.data.glue), split) for split in ("train", "dev")]
        return [file.path() for file in (self.data.train, self.data.validation) if file is not None]

    def fixed_options(self) -> dict[str, Any]:
        return {"head": "classes"}

    def usual_evaluators(self) -> list[Evaluator]:
        """Accuracy or the correlations, GLUE's metrics, and those that the recipe names."""
        usual = ("pearson", "spearman") if self.regression else ("accuracy",)
        own = self._glue.metrics if self._glue else ()
        names = list(dict.fromkeys([*usual, *own, *self.data.metrics]))
        if (wanted := self.recipe.training.metric) not in ("loss", *names):
            raise ConfigError(
                "training.metric is not a validation metric",
                got=wanted,
                expected=f"one of loss, {', '.join(names)}",
                remedy="Name it in data.metrics.",
            )
        return [make_evaluator({"name": "correlation" if self.regression else "classes", "metrics": names})]

    def texts(self) -> dict[str, Callable[[], Iterable[str]]]:
        return {"source": lambda: all_texts(self._train)}

    def encode(self, folder: Path, say: Say) -> tuple[TextRows, TextRows | None]:
        train = self._rows(self._train)
        say(f"train: {len(train):,} rows" + (f", {len(self.labels)} classes" if self.labels else ""))
        if not self.validates:
            return train, None
        held_out = self._rows(self._examples("dev"))
        say(f"validation: {len(held_out):,} rows")
        return train, held_out

    def sizes(self) -> dict[str, Any]:
        return {"n_labels": 1 if self.regression else max(len(self.labels), 2)}

    def extra(self) -> dict[str, Any]:
        labels: dict[str, Any] = {"regression": True} if self.regression else {"labels": list(self.labels)}
        pairs = self._train[0].other is not None
        return {**labels, "pairs": pairs, "max_len": self.data.max_len, **self._beginning()}

    def material(self) -> dict[str, Any]:
        return {"numbers": True} if self.regression else {"classes": list(self.labels)}

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The classes in order, which is that of the model to start from if it has them; none for a regression."""
        if self.regression:
            return ()
        given = tuple(self._glue.classes.values()) if self._glue else self.data.labels
        known = known_classes(self, given or {example.label for example in self._train})
        return tuple(known) if known is not None else given or classes(self._train)

    @cached_property
    def _train(self) -> list[Example]:
        examples, wanted = self._examples("train"), self.data.train_rows
        if wanted is None:
            return examples
        if wanted > len(examples):
            raise ConfigError("data.train_rows is too large", got=wanted, expected=f"at most {len(examples)}")
        # In a generator of its own: all models with this seed get the same examples.
        return [examples[row] for row in sorted(Dice(self.recipe.training.seed, 0).order(len(examples))[:wanted])]

    def _beginning(self) -> dict[str, Any]:
        """The settings of the model to start from for the token that begins a text."""
        known = self.start.extra if self.start is not None and not reads_cls(self.model_name) else {}
        return {key: known[key] for key in ("tokens", "begin") if key in known}

    def _examples(self, split: str) -> list[Example]:
        if self._glue is not None and self.data.glue is not None:
            return self._glue.examples(expand_path(self.data.glue), split)
        file = self.data.train if split == "train" else self.data.validation
        assert file is not None
        return file.examples()

    def _rows(self, examples: Sequence[Example]) -> TextRows:
        assert self.tokenizer is not None
        what = " of the training data" if examples is self._train else " of the validation data"
        others = (example.other for example in examples)
        check_words(self.model_name, (example.text for example in examples), others, what)
        lay = layout(row_layout(self.model_name), self._beginning())
        return TextRows(self.tokenizer, examples, self._targets(examples), max_len=self.data.max_len, lay=lay)

    def _targets(self, examples: Sequence[Example]) -> Tensor:
        return numbers(examples) if self.regression else class_numbers(examples, self.labels)
