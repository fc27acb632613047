"""Image classification, judged by loss and accuracy on held-out images."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator
from torch import nn

from regard.core.config import Config
from regard.core.errors import ConfigError
from regard.data.chance import Dice
from regard.data.image_files import IdxFiles, ImageFolder, ImageSource, Sprite
from regard.data.image_rows import ImageRows, LabelledImages, encode_images
from regard.data.images import ImageForm
from regard.folder import ModelFolder
from regard.jobs._job import Say, model_config, model_name
from regard.recipe import Recipe, filled_in
from regard.tasks import image_classification as tasks

_SPLIT = 2**63  # the draw that splits off a share has a stream of its own, beyond any epoch


class ImageFiles(Config):
    """A folder with one subfolder a class; or IDX images and labels; or one picture of tiles and JSON labels."""

    folder: str | None = None
    images: str | None = Field(None, description="IDX, as MNIST has it")
    sprite: str | None = Field(None, description="one picture of square tiles")
    labels: str | None = Field(None, description="IDX for images, JSON for a sprite")
    tile: int = Field(32, gt=0, description="pixels of a sprite's tile")
    key: str = Field("train", description="the list of labels in a sprite's JSON")

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        given = [name for name in ("folder", "images", "sprite") if getattr(self, name) is not None]
        if len(given) != 1 or (given != ["folder"]) != (self.labels is not None):
            raise ValueError("images are given as folder, as images and labels, or as sprite and labels")
        return self

    def source(self) -> ImageSource:
        if self.folder is not None:
            return ImageFolder(filled_in(self.folder))
        assert self.labels is not None
        labels = filled_in(self.labels)
        if self.images is not None:
            return IdxFiles(filled_in(self.images), labels)
        assert self.sprite is not None
        return Sprite(filled_in(self.sprite), self.tile, labels, self.key)


class ImageData(Config):
    train: ImageFiles
    validation: ImageFiles | None = None
    validation_share: float = Field(0.0, ge=0, lt=1, description="or so many of the training images, drawn by the seed")
    size: int | None = Field(None, gt=0, description="pixels a side; by default those of the files")
    channels: Literal[1, 3] | None = Field(None, description="1: grey, 3: colour; by default that of the files")
    shift: int = Field(0, ge=0, description="pixels that a training image is moved at most")
    flip: bool = Field(False, description="mirror half of the training images")

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if self.validation is not None and self.validation_share:
            raise ValueError("validation and validation_share are two ways to say the same; give one")
        return self


class ImageClassificationJob:
    Data = ImageData
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "model": {"name": "vit"},
        "training": {"label_smoothing": 0.0, "rows_per_batch": 128},
    }
    metrics = ("loss", "accuracy")

    def __init__(self, recipe: Recipe, start: ModelFolder | None) -> None:
        assert isinstance(recipe.data, ImageData)
        self.recipe, self.data, self.start = recipe, recipe.data, start
        self.task = tasks.ImageClassification(label_smoothing=recipe.training.label_smoothing)
        self.validates = self.data.validation is not None or self.data.validation_share > 0
        self._source = self.data.train.source()

    def files(self) -> list[Path]:
        held_out = self.data.validation.source().paths() if self.data.validation is not None else []
        return [*self._source.paths(), *held_out]

    def prepare(self, folder: Path, say: Say) -> None:
        self._train = self._encoded(self._source, folder / "train", say)
        if self.data.validation is not None:
            self._held_out = self._encoded(self.data.validation.source(), folder / "validation", say)
        elif self.data.validation_share:
            dice = Dice(self.recipe.training.seed, _SPLIT)
            self._train, self._held_out = self._train.split(self.data.validation_share, dice)
        self._form = self._known_form() or self._measured_form()

    def model_config(self) -> Config:
        size, channels = self._shape()
        fixed = {"image_size": size, "channels": channels, "n_labels": len(self._source.classes())}
        if self.start is not None:
            # Positions are those of the images it was trained on; others are interpolated.
            fixed["image_size"] = getattr(self.start.config, "image_size", size)
        return model_config(self.recipe, self.start, **fixed)

    def loader(self) -> ImageRows:
        return self._rows(self._train, shuffle=True)

    def validate(self, model: nn.Module) -> dict[str, float]:
        judged = [self.task.judged(model, batch) for batch in self._rows(self._held_out, shuffle=False).epoch(0)]
        loss, right = (sum(each) for each in zip(*judged, strict=True))
        return {"loss": loss / len(self._held_out), "accuracy": right / len(self._held_out)}

    def stored(self, model: nn.Module) -> ModelFolder:
        extra = {"labels": self._source.classes(), "image": self._form.model_dump(mode="json")}
        name, config = model_name(self.recipe, self.start), self.model_config()
        return ModelFolder("image_classification", name, config, model, extra=extra)

    def _shape(self) -> tuple[int, int]:
        """Pixels a side and channels: as asked for, as the model to start from has them, as the files do."""
        known, form = self._known_form(), self._source.form()
        files = (form[1], form[0]) if form is not None else (None, 3)
        size = self.data.size or (known.size if known is not None else files[0])
        if size is None:
            raise ConfigError("data.size is missing", expected="the pixels a side that images are resized to")
        return size, self.data.channels or (known.channels if known is not None else files[1])

    def _known_form(self) -> ImageForm | None:
        if self.start is None or "image" not in self.start.extra:
            return None
        return ImageForm.parse(self.start.extra["image"], f"the images of {self.recipe.model.start}")

    def _measured_form(self) -> ImageForm:
        size, channels = self._shape()
        mean, std = self._train.moments()
        return ImageForm.parse({"size": size, "channels": channels, "mean": mean, "std": std})

    def _encoded(self, source: ImageSource, place: Path, say: Say) -> LabelledImages:
        if not (place / "meta.json").exists():
            size, channels = self._shape()
            made = encode_images(source, place, size=size, channels=channels, classes=self._source.classes())
            say(f"{place.name}: {len(made):,} images")
        return LabelledImages.open(place)

    def _rows(self, images: LabelledImages, *, shuffle: bool) -> ImageRows:
        training, data = self.recipe.training, self.data
        rows = training.rows_per_batch or 128
        return ImageRows(
            images, self._form, rows=rows, seed=training.seed, shift=data.shift, flip=data.flip, shuffle=shuffle
        )
