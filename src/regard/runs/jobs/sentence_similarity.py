"""Sentence embeddings, learnt from scored pairs or from pairs that belong together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor

from regard.core.config import Config
from regard.core.errors import ConfigError, DataError
from regard.core.paths import expand_path
from regard.data.glue import TASKS
from regard.data.labels import numbers
from regard.data.tables import Example
from regard.data.text_rows import TwinRows
from regard.evaluation.evaluators import Evaluator, make_evaluator
from regard.runs.jobs._tables import WORDPIECE, LabelledFile, WordPieces, all_texts
from regard.runs.recipe import Recipe
from regard.runs.setup import ClsSetup, Say
from regard.store import StoredModel
from regard.tasks.sentence_similarity import Mode, SentenceSimilarity

_STSB = TASKS["STS-B"]


class SentenceSimilarityData(Config):
    train: LabelledFile | None = None
    validation: LabelledFile | None = None
    stsb: str | None = Field(None, description="or the folder of the STS benchmark, or of GLUE's STS-B")
    mode: Mode = Field("cosine", description="scored pairs; contrastive: pairs that belong together")
    scale: tuple[float, float] = Field((0.0, 5.0), description="the scores that correspond to cosines 0 and 1")
    minimum: float | None = Field(None, description="contrastive: the lowest score of pairs that belong together")
    temperature: float = Field(0.05, gt=0, description="contrastive: cosines are divided by it")
    tokenizer: WordPieces = WORDPIECE
    max_len: int = Field(128, gt=3, description="tokens per sentence, special tokens included; longer ones are cut")
    max_rows: int | None = Field(None, gt=0, description="most pairs per batch")

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.stsb is None) == (self.train is None) or (self.stsb is not None and self.validation is not None):
            raise ValueError("give either train (and validation) or stsb")
        if self.scale[0] >= self.scale[1]:
            raise ValueError(f"scale must go from a lower to a higher score, got {self.scale}")
        for name, file in (("train", self.train), ("validation", self.validation)):
            if file is not None and file.other is None:
                raise ValueError(f"{name}.other is missing: the column of the second sentence")
            scored = name == "validation" or self.mode == "cosine" or self.minimum is not None
            if file is not None and file.label is None and scored:
                raise ValueError(f"{name}.label is missing: the column of the score")
        return self


class SentenceSimilarityJob(ClsSetup):
    Data = SentenceSimilarityData
    unused = ("label_smoothing",)
    offers = ("numbers",)
    data: SentenceSimilarityData

    def __init__(self, recipe: Recipe, start: StoredModel | None) -> None:
        super().__init__(recipe, start)
        if self.data.max_rows == 1 and self.data.mode == "contrastive":
            raise ConfigError("contrastive learning needs two or more pairs per batch", got="data.max_rows 1")

    @property
    def validates(self) -> bool:
        return self.data.stsb is not None or self.data.validation is not None

    def task(self) -> SentenceSimilarity:
        return SentenceSimilarity(self.data.mode, temperature=self.data.temperature)

    def files(self) -> list[Path]:
        if self.data.stsb is not None:
            return [_STSB.path(expand_path(self.data.stsb), split) for split in ("train", "dev")]
        return [file.path() for file in (self.data.train, self.data.validation) if file is not None]

    def fixed_options(self) -> dict[str, Any]:
        return {"head": "sentence"}

    def usual_evaluators(self) -> list[Evaluator]:
        return [make_evaluator("correlation")]

    def texts(self) -> dict[str, Callable[[], Iterable[str]]]:
        return {"source": lambda: all_texts(self._train)}

    def encode(self, folder: Path, say: Say) -> tuple[TwinRows, TwinRows | None]:
        assert self.tokenizer is not None
        scores = self._scores(self._train) if self.data.mode == "cosine" else None
        train = TwinRows(self.tokenizer, self._train, scores, max_len=self.data.max_len)
        say(f"train: {len(train):,} pairs")
        if not self.validates:
            return train, None
        examples = self._examples("dev")
        held_out = TwinRows(self.tokenizer, examples, self._scores(examples), max_len=self.data.max_len)
        say(f"validation: {len(held_out):,} pairs")
        return train, held_out

    def extra(self) -> dict[str, Any]:
        return {"max_len": self.data.max_len}

    def material(self) -> dict[str, Any]:
        return {"numbers": True}

    @cached_property
    def _train(self) -> list[Example]:
        return self._belonging(self._examples("train"))

    def _examples(self, split: str) -> list[Example]:
        if self.data.stsb is not None:
            return _STSB.examples(expand_path(self.data.stsb), split)
        file = self.data.train if split == "train" else self.data.validation
        assert file is not None
        return file.examples()

    def _belonging(self, examples: list[Example]) -> list[Example]:
        if self.data.mode == "cosine" or self.data.minimum is None:
            return examples
        high = numbers(examples) >= self.data.minimum
        kept = [pair for pair, keep in zip(examples, high.tolist(), strict=True) if keep]
        if len(kept) < 2:
            raise DataError("too few pairs reach data.minimum", got=len(kept), expected="2 or more")
        return kept

    def _scores(self, examples: Sequence[Example]) -> Tensor:
        """From 0 to 1."""
        low, high = self.data.scale
        scores = (numbers(examples) - low) / (high - low)
        if bool((outside := (scores < 0) | (scores > 1)).any()):
            row = int(torch.nonzero(outside)[0]) + 1
            got = examples[row - 1].label
            raise DataError(f"row {row} has a score outside data.scale", got=got, expected=f"{low:g} to {high:g}")
        return scores
