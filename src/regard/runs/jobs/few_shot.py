"""Few-shot classification: a model that learns to learn classes from a few images of each."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from regard.core.config import Config
from regard.core.errors import ConfigError
from regard.core.paths import expand_path
from regard.data.chance import Dice
from regard.data.class_images import BOX, ClassImages, read_arrays, read_folder
from regard.data.episodes import Episodes, Shape
from regard.data.image_files import ImageFolder
from regard.data.images import ImageForm
from regard.runs.recipe import Recipe
from regard.runs.setup import Say, Setup
from regard.store import StoredModel
from regard.tasks.few_shot import FewShot

_SPLIT = 2**63  # the "epoch" whose random numbers choose the classes that are held out; no episode uses it


class ClassFiles(Config):
    """An array file with images, class names and splits; or a folder with one subfolder per class."""

    arrays: str | None = Field(None, description="an .npz file: see data/class_images.py")
    split: str | None = Field(None, description="the classes of the array file to use; by default all")
    folder: str | None = None

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.arrays is None) == (self.folder is None):
            raise ValueError("give either arrays or folder")
        return self

    def paths(self) -> list[Path]:
        if self.folder is not None:
            return ImageFolder(expand_path(self.folder)).paths()
        return [expand_path(str(self.arrays))]


class FewShotData(Config):
    train: ClassFiles
    validation: ClassFiles | None = None
    validation_classes: int = Field(0, ge=0, description="or this many of the training classes, by seed")
    ways: int = Field(5, gt=1, le=1000, description="classes of an episode")
    shots: int = Field(1, gt=0, le=1000, description="labelled images of each class")
    queries: int = Field(5, gt=0, le=1000, description="images to classify in each training episode")
    episodes: int = Field(10_000, gt=0, le=10**9, description="episodes of an epoch")
    validation_episodes: int = Field(400, gt=0, le=10**7)
    rotations: bool = Field(False, description="in training, classes turned by 90°, 180° and 270° are further classes")
    size: int = Field(28, gt=0, le=1024, description="pixels per side")
    channels: Literal[1, 3] = 1
    invert: bool = Field(False, description="images that are mostly bright become negatives: drawings in dark ink")

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if self.validation is not None and self.validation_classes:
            raise ValueError("give either validation or validation_classes")
        return self

    def read(self, files: ClassFiles) -> ClassImages:
        if files.folder is not None:
            return read_folder(expand_path(files.folder), size=self.size, channels=self.channels, invert=self.invert)
        path = expand_path(str(files.arrays))
        images = read_arrays(path, files.split, channels=self.channels, invert=self.invert)
        if (size := images.examples[0].shape[-1]) != self.size:
            raise ConfigError("data.size does not fit the array file", got=self.size, expected=f"{size} pixels")
        return images


class FewShotJob(Setup):
    Data = FewShotData
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "model": {"name": "snail"},
        "training": {"label_smoothing": 0.0, "rows_per_batch": 16, "metric": "accuracy"},
    }
    data: FewShotData

    def __init__(self, recipe: Recipe, start: StoredModel | None) -> None:
        super().__init__(recipe, start)
        known = None if start is None else start.config
        if known is not None and (known.n_outputs != self.data.ways or known.seq_len != self._steps):  # type: ignore[attr-defined]
            raise ConfigError(
                "the model does not fit these episodes",
                got=f"{self.data.ways} ways, {self.data.shots} shots",
                expected=f"{known.n_outputs} ways, {known.seq_len} steps",  # type: ignore[attr-defined]
                remedy="Give the ways and shots that it was trained with.",
            )

    @property
    def validates(self) -> bool:
        return self.data.validation is not None or self.data.validation_classes > 0

    def task(self) -> FewShot:
        smoothing = self.recipe.training.label_smoothing
        return FewShot(self.data.ways * self.data.shots, label_smoothing=smoothing)

    def files(self) -> list[Path]:
        held_out = [] if self.data.validation is None else self.data.validation.paths()
        return [*self.data.train.paths(), *held_out]

    def fixed_options(self) -> dict[str, Any]:
        data = self.data
        sizes = {"n_outputs": data.ways, "seq_len": self._steps, "image_size": data.size, "channels": data.channels}
        return {"head": "classes", **sizes}

    def encode(self, folder: Path, say: Say) -> tuple[tuple[ClassImages, str], tuple[ClassImages, str] | None]:
        train, held_out = self.data.read(self.data.train), None
        if self.data.validation is not None:
            held_out = self.data.read(self.data.validation)
        elif self.data.validation_classes:
            train, held_out = train.split(self.data.validation_classes, Dice(self.recipe.training.seed, _SPLIT))
        say(f"{len(train):,} classes for training" + (f", {len(held_out):,} held out" if held_out else ""))
        return (train, "train"), None if held_out is None else (held_out, "validation")

    def batches(self, examples: tuple[ClassImages, str], *, shuffle: bool) -> Episodes:
        (source, split), data, training = examples, self.data, self.recipe.training
        train = split == "train"
        # In validation each episode asks for every class once.
        shape = Shape(data.ways, data.shots, data.queries if train else data.ways)
        return Episodes(
            source,
            self._form,
            shape,
            count=data.episodes if train else data.validation_episodes,
            rows=training.rows_per_batch or 16,
            seed=training.seed,
            split=split,
            rotations=data.rotations and train,
        )

    def extra(self) -> dict[str, Any]:
        shape = {"ways": self.data.ways, "shots": self.data.shots}
        return {"image": self._form.model_dump(mode="json"), "invert": self.data.invert, **shape}

    @cached_property
    def _form(self) -> ImageForm:
        colours = self.data.channels
        form = {"size": self.data.size, "channels": colours, "mean": [0.0] * colours, "std": [1.0] * colours}
        return ImageForm.parse({**form, "resizing": BOX.model_dump()})

    @property
    def _steps(self) -> int:
        return self.data.ways * self.data.shots + 1
