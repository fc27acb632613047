"""Questions answered by a span of a text, as in SQuAD."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from pydantic import Field, model_validator

from regard.core.config import Config
from regard.data.spans import SpanRows
from regard.data.squad import Question, by_article, read_squad
from regard.evaluation.evaluators import Evaluator, make_evaluator
from regard.runs.jobs._files import Files, paths
from regard.runs.jobs._tables import WORDPIECE, WordPieces
from regard.runs.setup import ClsSetup, Say
from regard.tasks.question_answering import QuestionAnswering


class QuestionAnsweringData(Config):
    train: Files = Field(description="files in SQuAD's JSON, compressed or not")
    validation: Files | None = None
    validation_share: float = Field(0.0, ge=0, lt=1, description="or this share of train, by whole articles")
    tokenizer: WordPieces = WORDPIECE
    max_len: int = Field(384, ge=32, description="tokens per row, question and special tokens included")
    overlap: int = Field(128, ge=0, description="tokens that two windows of a long text share, at most ¾ of a window")
    max_answer: int = Field(30, gt=0, description="tokens of the longest answer")
    threshold: float = Field(0.0, description="the empty answer wins if it beats the best span by more")
    max_rows: int | None = Field(None, gt=0, description="most windows per batch")

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if self.validation is not None and self.validation_share:
            raise ValueError("give either validation or validation_share")
        return self


class QuestionAnsweringJob(ClsSetup):
    Data = QuestionAnsweringData
    unused = ("label_smoothing",)
    offers = ("questions", "windows")
    data: QuestionAnsweringData

    def task(self) -> QuestionAnswering:
        return QuestionAnswering()

    def files(self) -> list[Path]:
        return [*paths(self.data.train), *paths(self.data.validation)]

    def fixed_options(self) -> dict[str, Any]:
        return {"head": "span"}

    def usual_evaluators(self) -> list[Evaluator]:
        return [make_evaluator("spans")]

    def texts(self) -> dict[str, Callable[[], Iterable[str]]]:
        train, _ = self._questions
        return {"source": lambda: sorted({text for asked in train for text in (asked.text, asked.context)})}

    def encode(self, folder: Path, say: Say) -> tuple[SpanRows, SpanRows]:
        sets = [self._rows(questions) for questions in self._questions]
        for name, questions, rows in zip(("train", "validation"), self._questions, sets, strict=True):
            if questions:
                answered = sum(bool(question.answers) for question in questions)
                say(f"{name}: {len(questions):,} questions, {answered:,} with an answer, in {len(rows):,} windows")
        self._held_out = sets[1]
        return sets[0], sets[1]

    def extra(self) -> dict[str, Any]:
        limits = self.data.model_dump(include={"max_len", "overlap", "max_answer", "threshold"})
        return {**limits, "unanswerable": self._unanswerable}

    def material(self) -> dict[str, Any]:
        return {
            "questions": self._questions[1],
            "windows": self._held_out.windows,
            "longest": self.data.max_answer,
            "threshold": self.data.threshold if self._unanswerable else None,
        }

    @cached_property
    def _questions(self) -> tuple[list[Question], list[Question]]:
        """The questions for training, and the held-out ones."""
        train, held_out = (_read_questions(paths(files)) for files in (self.data.train, self.data.validation))
        return by_article(train, self.data.validation_share) if self.data.validation_share else (train, held_out)

    @property
    def _unanswerable(self) -> bool:
        return any(not question.answers for question in self._questions[0])

    def _rows(self, questions: Sequence[Question]) -> SpanRows:
        assert self.tokenizer is not None
        return SpanRows(self.tokenizer, questions, max_len=self.data.max_len, overlap=self.data.overlap)


def _read_questions(files: Sequence[Path]) -> list[Question]:
    return [question for path in files for question in read_squad(path)]
