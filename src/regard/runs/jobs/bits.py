"""Generated tasks on bits: copy, repeat copy, associative recall. There are no files: a row is made from its number."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from regard.core.config import Config
from regard.core.errors import ConfigError
from regard.data.bit_rows import BitRows
from regard.data.bit_tasks import make_bit_task
from regard.data.row_batches import RowBatches
from regard.runs.recipe import Recipe
from regard.runs.setup import Say, Setup
from regard.store import StoredModel
from regard.tasks.bits import Bits


class BitsData(Config):
    kind: str = Field("copy", description="a file of data/bit_tasks: copy, repeat_copy, associative_recall")
    bits: int = Field(8, gt=0, le=256, description="bits of a vector")
    length: int | tuple[int, int] = Field((1, 20), description="vectors (or items) of a row: a number, or from and to")
    rows: int = Field(200_000, gt=0, le=10_000_000, description="rows of an epoch")
    validation: int | None = Field(256, gt=0, le=1_000_000, description="rows of the same lengths, held out")
    seed: int = Field(1, ge=0, description="seed of the rows; training.seed is that of the weights")


class BitsJob(Setup):
    Data = BitsData
    unused = ("label_smoothing",)
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "model": {"name": "ntm"},
        "training": {"label_smoothing": 0.0},
    }
    data: BitsData

    def __init__(self, recipe: Recipe, start: StoredModel | None) -> None:
        super().__init__(recipe, start)
        self.kind = make_bit_task(self.data.kind, self.data.bits)
        self._rows(1, "train")  # refuses lengths that do not fit
        if start is not None:
            wide, own = (start.config.model_dump().get(name) for name in self.sizes()), tuple(self.sizes().values())
            if (got := tuple(wide)) != own:
                raise ConfigError(
                    "the model does not fit this task",
                    got=f"{got[0]} channels in and {got[1]} bits out",
                    expected=f"{own[0]} and {own[1]}",
                    remedy="Give the kind and the bits that it was trained with.",
                )

    def task(self) -> Bits:
        return Bits()

    def encode(self, folder: Path, say: Say) -> tuple[BitRows, BitRows | None]:
        held_out = None if self.data.validation is None else self._rows(self.data.validation, "validation")
        return self._rows(self.data.rows, "train"), held_out

    def sizes(self) -> dict[str, Any]:
        return {"d_input": self.kind.d_input, "d_output": self.kind.d_output}

    def batches(self, examples: BitRows, *, shuffle: bool) -> RowBatches:
        training = self.recipe.training
        return RowBatches(
            examples,
            tokens_per_batch=training.tokens_per_batch,
            seed=training.seed,
            max_rows=training.rows_per_batch,
            shuffle=shuffle,
        )

    def extra(self) -> dict[str, Any]:
        return {"kind": self.data.kind, "bits": self.data.bits}

    def _rows(self, count: int, split: str) -> BitRows:
        length = self.data.length
        shortest, longest = length if isinstance(length, tuple) else (length, length)
        return BitRows(self.kind, count, shortest=shortest, longest=longest, split=split, seed=self.data.seed)
