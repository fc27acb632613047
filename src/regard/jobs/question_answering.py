"""Questions answered by a span of a text, as in SQuAD."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import Field, model_validator
from torch import nn

from regard.core.config import Config
from regard.data.row_batches import RowBatches
from regard.data.spans import SpanRows
from regard.data.squad import Question, by_article, read_squad
from regard.data.text import Tokenizer
from regard.folder import ModelFolder
from regard.jobs._encoder import WORDPIECE, check_marks, check_tokenizer, encoder_config
from regard.jobs._job import Say, model_name
from regard.jobs._text import Files, TextTokenizer, paths, vocabulary
from regard.recipe import Recipe
from regard.tasks import metrics
from regard.tasks import question_answering as tasks


class QuestionAnsweringData(Config):
    train: Files = Field(description="files in SQuAD's JSON, packed or not")
    validation: Files | None = None
    validation_share: float = Field(0.0, ge=0, lt=1, description="or hold out so much of train, by whole articles")
    tokenizer: TextTokenizer = WORDPIECE
    max_len: int = Field(384, ge=32, description="tokens of a row, question and marks included")
    overlap: int = Field(128, ge=0, description="tokens that two windows of a long text share")
    max_answer: int = Field(30, gt=0, description="tokens of the longest answer")
    threshold: float = Field(0.0, description="how far no answer must be above the best answer to be given")
    max_rows: int | None = Field(None, gt=0, description="most windows of a batch")

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if self.validation is not None and self.validation_share:
            raise ValueError("validation and validation_share are two ways to say the same; give one")
        return self


class QuestionAnsweringJob:
    Data = QuestionAnsweringData
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "model": {"name": "bert"},
        "training": {"label_smoothing": 0.0},
    }
    metrics = ("loss", "exact", "f1")

    def __init__(self, recipe: Recipe, start: ModelFolder | None) -> None:
        assert isinstance(recipe.data, QuestionAnsweringData)
        check_tokenizer(start)
        self.recipe, self.data, self.start = recipe, recipe.data, start
        self.task = tasks.QuestionAnswering()
        self.validates = self.data.validation is not None or self.data.validation_share > 0
        self._tokenizer: Tokenizer | None = start.source_tokenizer if start is not None else None
        self._unanswerable = False

    def files(self) -> list[Path]:
        return [*paths(self.data.train), *paths(self.data.validation)]

    def prepare(self, folder: Path, say: Say) -> None:
        train, self._asked = (_read(paths(files)) for files in (self.data.train, self.data.validation))
        if self.data.validation_share:
            train, self._asked = by_article(train, self.data.validation_share)
        self._unanswerable = any(not question.answers for question in train)
        read = {text for question in train for text in (question.text, question.context)}
        self._tokenizer = vocabulary(self.data.tokenizer, folder, sorted(read), self.start, marks="bert")
        check_marks(self._tokenizer)
        self._train, self._held_out = self._rows(train), self._rows(self._asked)
        for name, questions, rows in (("train", train, self._train), ("validation", self._asked, self._held_out)):
            if questions:
                answered = sum(bool(question.answers) for question in questions)
                say(f"{name}: {len(questions):,} questions, {answered:,} with an answer, in {len(rows):,} windows")

    def model_config(self) -> Config:
        return encoder_config(self.recipe, self.start, self._tokenizer, self.data.max_len, head="span")

    def loader(self) -> RowBatches:
        return self._batches(self._train, shuffle=True)

    def validate(self, model: nn.Module) -> dict[str, float]:
        """The mean loss of a window, and the shares of answers that are exactly right, and of their words (F1)."""
        logits, loss = self.task.judged(model, self._batches(self._held_out, shuffle=False).epoch(0))
        contexts = [question.context for question in self._asked]
        found = tasks.answers(
            self._held_out.windows,
            logits,
            contexts,
            longest=self.data.max_answer,
            threshold=self.data.threshold if self._unanswerable else None,
        )
        return {"loss": loss, **scores([answer.text for answer in found], self._asked)}

    def stored(self, model: nn.Module) -> ModelFolder:
        name, config, tokenizer = model_name(self.recipe, self.start), self.model_config(), self._tokenizer
        extra = self.data.model_dump(include={"max_len", "overlap", "max_answer", "threshold"})
        extra["unanswerable"] = self._unanswerable
        return ModelFolder("question_answering", name, config, model, tokenizer, tokenizer, extra=extra)

    def _rows(self, questions: Sequence[Question]) -> SpanRows:
        assert self._tokenizer is not None
        return SpanRows(self._tokenizer, questions, max_len=self.data.max_len, overlap=self.data.overlap)

    def _batches(self, rows: SpanRows, *, shuffle: bool) -> RowBatches:
        training = self.recipe.training
        budget, most = training.tokens_per_batch, self.data.max_rows
        return RowBatches(rows, tokens_per_batch=budget, seed=training.seed, max_rows=most, shuffle=shuffle)


def scores(said: Sequence[str], questions: Sequence[Question]) -> dict[str, float]:
    """SQuAD's two numbers; where some questions have no answer, F1 also for those that have one and for the others."""
    exact = [metrics.exact_match(text, question.wanted) for text, question in zip(said, questions, strict=True)]
    shared = [metrics.answer_f1(text, question.wanted) for text, question in zip(said, questions, strict=True)]
    found = {"exact": _mean(exact), "f1": _mean(shared)}
    has = [bool(question.answers) for question in questions]
    if not all(has):
        found["answerable_f1"] = _mean([value for value, one in zip(shared, has, strict=True) if one])
        found["unanswerable_f1"] = _mean([value for value, one in zip(shared, has, strict=True) if not one])
    return found


def _mean(values: Sequence[float]) -> float:
    return sum(values) / max(len(values), 1)


def _read(files: Sequence[Path]) -> list[Question]:
    return [question for path in files for question in read_squad(path)]
