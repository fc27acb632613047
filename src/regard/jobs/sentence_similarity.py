"""Sentence vectors, learnt from scored pairs or from pairs that belong together; judged by Spearman's correlation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from regard.core.config import Config
from regard.core.errors import ConfigError, DataError
from regard.data.glue import TASKS
from regard.data.row_batches import RowBatches
from regard.data.tables import Example
from regard.data.text import Tokenizer
from regard.data.text_rows import TwinRows
from regard.folder import ModelFolder
from regard.jobs._encoder import WORDPIECE, LabelledFile, check_marks, check_tokenizer, encoder_config, texts
from regard.jobs._job import Say, model_name
from regard.jobs._text import TextTokenizer, vocabulary
from regard.jobs.classification import numbers
from regard.recipe import Recipe, filled_in
from regard.tasks import metrics
from regard.tasks import sentence_similarity as tasks

_STSB = TASKS["STS-B"]


class SentenceSimilarityData(Config):
    train: LabelledFile | None = None
    validation: LabelledFile | None = None
    stsb: str | None = Field(None, description="or the folder of the STS benchmark, or of GLUE's STS-B")
    mode: tasks.Mode = Field("cosine", description="scored pairs; contrastive: pairs that belong together")
    scale: tuple[float, float] = Field((0.0, 5.0), description="the scores that cosines 0 and 1 stand for")
    minimum: float | None = Field(None, description="contrastive: only pairs that are scored as high belong together")
    temperature: float = Field(0.05, gt=0, description="contrastive: what cosines are divided by")
    tokenizer: TextTokenizer = WORDPIECE
    max_len: int = Field(128, gt=3, description="tokens of a sentence, marks included; what is longer is cut")
    max_rows: int | None = Field(None, gt=0, description="most pairs of a batch")

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.stsb is None) == (self.train is None) or (self.stsb is not None and self.validation is not None):
            raise ValueError("data is given as train (and validation), or as stsb: expected one of the two")
        if self.scale[0] >= self.scale[1]:
            raise ValueError(f"scale goes from a lower to a higher score, got {self.scale}")
        for name, file in (("train", self.train), ("validation", self.validation)):
            if file is not None and file.other is None:
                raise ValueError(f"{name}.other is missing: the column of the second sentence")
            scored = name == "validation" or self.mode == "cosine" or self.minimum is not None
            if file is not None and file.label is None and scored:
                raise ValueError(f"{name}.label is missing: the column of the score")
        return self


class SentenceSimilarityJob:
    Data = SentenceSimilarityData
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "model": {"name": "bert"},
        "training": {"label_smoothing": 0.0},
    }
    metrics = ("loss", "pearson", "spearman")

    def __init__(self, recipe: Recipe, start: ModelFolder | None) -> None:
        assert isinstance(recipe.data, SentenceSimilarityData)
        check_tokenizer(start)
        self.recipe, self.data, self.start = recipe, recipe.data, start
        self.task = tasks.SentenceSimilarity(self.data.mode, temperature=self.data.temperature)
        self.validates = self.data.stsb is not None or self.data.validation is not None
        if self.data.max_rows == 1 and self.data.mode == "contrastive":
            raise ConfigError("a contrastive batch of one pair has nothing to tell it from", got="data.max_rows 1")
        self._tokenizer: Tokenizer | None = start.source_tokenizer if start is not None else None

    def files(self) -> list[Path]:
        if self.data.stsb is not None:
            return [_STSB.path(filled_in(self.data.stsb), split) for split in ("train", "dev")]
        return [one.path() for one in (self.data.train, self.data.validation) if one is not None]

    def prepare(self, folder: Path, say: Say) -> None:
        train = self._belonging(self._examples("train"))
        self._tokenizer = vocabulary(self.data.tokenizer, folder, texts(train), self.start, marks="bert")
        check_marks(self._tokenizer)
        scored = self.data.mode == "cosine"
        self._train = TwinRows(
            self._tokenizer, train, self._scores(train) if scored else None, max_len=self.data.max_len
        )
        say(f"train: {len(self._train):,} pairs")
        if self.validates:
            held_out = self._examples("dev")
            self._wanted = self._scores(held_out)
            self._held_out = TwinRows(self._tokenizer, held_out, max_len=self.data.max_len)
            say(f"validation: {len(self._held_out):,} pairs")

    def model_config(self) -> Config:
        return encoder_config(self.recipe, self.start, self._tokenizer, self.data.max_len, head="sentence")

    def loader(self) -> RowBatches:
        return self._batches(self._train, shuffle=True)

    def validate(self, model: nn.Module) -> dict[str, float]:
        """Correlations of cosines and scores, and their squared difference as the loss, whatever the training's is."""
        cosines = self.task.cosines(model, self._batches(self._held_out, shuffle=False).epoch(0))
        said, wanted = cosines.numpy(), self._wanted.numpy()
        found = {name: judge(said, wanted) for name, judge in metrics.OF_NUMBERS.items()}
        return {"loss": float((cosines - self._wanted).square().mean()), **found}

    def stored(self, model: nn.Module) -> ModelFolder:
        name, config, tokenizer = model_name(self.recipe, self.start), self.model_config(), self._tokenizer
        extra = {"max_len": self.data.max_len}
        return ModelFolder("sentence_similarity", name, config, model, tokenizer, tokenizer, extra=extra)

    def _examples(self, split: str) -> list[Example]:
        if self.data.stsb is not None:
            return _STSB.examples(filled_in(self.data.stsb), split)
        file = self.data.train if split == "train" else self.data.validation
        assert file is not None
        return file.examples()

    def _belonging(self, examples: list[Example]) -> list[Example]:
        if self.data.mode == "cosine" or self.data.minimum is None:
            return examples
        high = numbers(examples) >= self.data.minimum
        kept = [one for one, keep in zip(examples, high.tolist(), strict=True) if keep]
        if len(kept) < 2:
            raise DataError("too few pairs are scored high enough", got=len(kept), expected="2 or more")
        return kept

    def _scores(self, examples: Sequence[Example]) -> Tensor:
        """From 0 to 1."""
        low, high = self.data.scale
        found = (numbers(examples) - low) / (high - low)
        if bool(((found < 0) | (found > 1)).any()):
            row = int(torch.nonzero((found < 0) | (found > 1))[0]) + 1
            got = examples[row - 1].label
            raise DataError(f"row {row} has a score outside data.scale", got=got, expected=f"{low:g} to {high:g}")
        return found

    def _batches(self, rows: TwinRows, *, shuffle: bool) -> RowBatches:
        training = self.recipe.training
        budget, most = training.tokens_per_batch, self.data.max_rows
        return RowBatches(rows, tokens_per_batch=budget, seed=training.seed, max_rows=most, shuffle=shuffle)
