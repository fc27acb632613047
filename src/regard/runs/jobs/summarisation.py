"""Summarisation: from a table of documents and summaries to a model that writes a summary (`data/summaries.py`)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from regard.core.config import Config
from regard.core.paths import expand_path
from regard.data import arrays, token_pairs
from regard.data.parallel import Report, TokenPairs, encode
from regard.data.summaries import Summaries
from regard.evaluation.evaluators import Evaluator, make_evaluator
from regard.runs.jobs.translation import PairTokenizer, TranslationJob
from regard.runs.setup import NeededLength, Say
from regard.tasks.summarisation import Summarisation


class SummaryFile(Config):
    """A table (.tsv, .csv, .jsonl, compressed or not) and its columns, by name or by number from 0."""

    file: str
    text: str | int = 0
    summary: str | int = 1
    header: bool | None = None
    skip: int = Field(0, ge=0, description="rows to leave out at the beginning")
    take: int | None = Field(None, gt=0, description="rows to use after these; None: all")

    def paths(self) -> list[Path]:
        return [expand_path(self.file)]

    def open(self) -> Summaries:
        return Summaries(expand_path(self.file), self.text, self.summary, self.header, self.skip, self.take)


class SummarisationData(Config):
    train: SummaryFile
    validation: SummaryFile | None = None
    tokenizer: PairTokenizer = PairTokenizer()
    max_document: int = Field(512, gt=0, description="longer documents are cut after this many tokens")
    max_tokens: int = Field(128, gt=0, description="longer summaries are left out of training")


class SummarisationJob(TranslationJob):
    Data: ClassVar[type[Config]] = SummarisationData
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {"model": {"name": "transformer"}}
    data: Any

    def task(self) -> Summarisation:
        training = self.recipe.training
        return Summarisation(label_smoothing=training.label_smoothing, r_drop=training.r_drop)

    def usual_evaluators(self) -> list[Evaluator]:
        return [make_evaluator("rouge")] if self.validates else []

    def needed_length(self) -> NeededLength:
        most = max(self.data.max_document, self.data.max_tokens)
        limits = f"data.max_document {self.data.max_document}, data.max_tokens {self.data.max_tokens}, special tokens"
        problem = "documents or summaries may be longer than the model's limit"
        return NeededLength(most + 2, problem, limits, "data.max_document", sets_max_len=False)

    def cuts(self) -> None:
        """None: a word is always split into the same tokens."""

    def extra(self) -> dict[str, Any]:
        return {**super().extra(), "max_document": self.data.max_document}

    def _encoded(self, files: Any, place: Path, say: Say) -> TokenPairs:
        assert self.tokenizer is not None
        assert self.target_tokenizer is not None
        if not arrays.holds(place, token_pairs.KIND):
            report, limits = Report(), {"max_tokens": self.data.max_tokens, "cut_source": self.data.max_document}
            encode(files.open().pairs(report), self.tokenizer, self.target_tokenizer, place, **limits, report=report)
            say(f"{place.name}: {report.summary()}")
        return TokenPairs.open(place)
