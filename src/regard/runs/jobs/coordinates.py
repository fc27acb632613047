"""Fitting one signal by a coordinate network: a picture, a row of numbers, or generated sines."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, model_validator

from regard.core.config import Config
from regard.core.errors import ConfigError
from regard.core.paths import expand_path
from regard.data import signals
from regard.data.signals import Signal, SignalBatches, SignalRows
from regard.evaluation.evaluators import Evaluator, make_evaluator
from regard.runs.setup import Say, Setup
from regard.tasks.coordinates import Coordinates

_Turns = Annotated[float, Field(gt=0, le=1e6)]


class CoordinatesData(Config):
    picture: str | None = Field(None, description="an image file")
    numbers: str | None = Field(None, description="a text file with one number per line, or a WAV file")
    sines: tuple[_Turns, ...] | None = Field(None, description="generated: the frequencies of sines that are summed")
    size: int = Field(128, gt=1, le=4096, description="pixels per side of the picture; points of generated sines")
    every: int = Field(2, gt=0, description="training sees every n-th point of each axis; 1: all of them")

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if sum(given is not None for given in (self.picture, self.numbers, self.sines)) != 1:
            raise ValueError("give one of picture, numbers and sines")
        if self.sines is not None and (fastest := max(self.sines, default=0)) >= self.size / 2:
            limit = f"below {self.size / 2:g} turns, half of data.size"
            raise ValueError(f"{self.size} points cannot hold a sine of {fastest:g} turns: give sines {limit}")
        return self


class CoordinatesJob(Setup):
    Data = CoordinatesData
    unused = ("label_smoothing",)
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "model": {"name": "fourier"},
        "training": {"label_smoothing": 0.0, "schedule": "constant", "warmup": 0, "metric": "psnr"},
    }
    offers = ("signal",)
    data: CoordinatesData

    @property
    def validates(self) -> bool:
        return self.data.every > 1

    def task(self) -> Coordinates:
        return Coordinates()

    def usual_evaluators(self) -> list[Evaluator]:
        return [make_evaluator("frequencies")] if self.validates else []

    def files(self) -> list[Path]:
        return [expand_path(path) for path in (self.data.picture, self.data.numbers) if path is not None]

    def encode(self, folder: Path, say: Say) -> tuple[SignalRows, SignalRows | None]:
        train = self._signal.rows(self.data.every, held_out=False)
        held_out = self._signal.rows(self.data.every, held_out=True) if self.validates else None
        say(f"{' × '.join(map(str, self._signal.shape))} points, {len(train):,} for training")
        unclear = self.data.size / (2 * self.data.every)
        if fast := [f"{turns:g}" for turns in self.data.sines or () if turns >= unclear]:
            say(f"the points for training look the same for sines of {', '.join(fast)} turns and for slower ones: "
                f"they tell sines apart below {unclear:g} turns")  # fmt: skip
        return train, held_out

    def sizes(self) -> dict[str, Any]:
        sizes = {"d_input": len(self._signal.shape), "d_output": self._signal.values.shape[-1]}
        if self.start is not None and any(getattr(self.start.config, name) != size for name, size in sizes.items()):
            raise ConfigError("the model does not fit this signal", got=str(sizes), expected="that of its training")
        return sizes

    def batches(self, examples: SignalRows, *, shuffle: bool) -> SignalBatches:
        training = self.recipe.training
        rows = (training.rows_per_batch or len(examples)) if shuffle else 4096
        return SignalBatches(examples, rows=rows, seed=training.seed, shuffle=shuffle)

    def extra(self) -> dict[str, Any]:
        signal = self._signal
        return {"shape": list(signal.shape), "low": signal.low, "high": signal.high}

    def material(self) -> dict[str, Any]:
        return {"signal": self._signal}

    @cached_property
    def _signal(self) -> Signal:
        data = self.data
        if data.picture is not None:
            return signals.picture(expand_path(data.picture), data.size)
        if data.numbers is not None:
            return signals.numbers(expand_path(data.numbers))
        assert data.sines is not None
        return signals.sines(data.sines, data.size)
