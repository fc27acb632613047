"""Image classification from folders, IDX files or pictures of tiles."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from regard.core.config import Config
from regard.core.errors import ConfigError
from regard.core.image_settings import Resizing
from regard.core.paths import expand_path
from regard.data import arrays, image_rows
from regard.data.chance import Dice
from regard.data.image_files import IdxFiles, ImageFolder, ImageSource, Sprite
from regard.data.image_rows import ImageRows, LabelledImages, encode_images
from regard.data.images import ImageForm
from regard.runs.jobs._classes import known_classes
from regard.runs.setup import Say, Setup
from regard.tasks.image_classification import ImageClassification

_SPLIT = 2**63  # the "epoch" whose random numbers split off the validation share; no real epoch reaches it


class ImageFiles(Config):
    """A folder with one subfolder per class; or IDX images and labels; or one picture of tiles and JSON labels."""

    folder: str | None = None
    images: str | None = Field(None, description="IDX, as in MNIST")
    sprite: str | None = Field(None, description="one picture of square tiles")
    labels: str | None = Field(None, description="IDX for images, JSON for a sprite")
    tile: int = Field(32, gt=0, description="pixels of a sprite's tile")
    key: str = Field("train", description="the list of labels in a sprite's JSON")

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        given = [name for name in ("folder", "images", "sprite") if getattr(self, name) is not None]
        if len(given) != 1 or (given != ["folder"]) != (self.labels is not None):
            raise ValueError("give images as folder, as images and labels, or as sprite and labels")
        return self

    def source(self) -> ImageSource:
        if self.folder is not None:
            return ImageFolder(expand_path(self.folder))
        assert self.labels is not None
        labels = expand_path(self.labels)
        if self.images is not None:
            return IdxFiles(expand_path(self.images), labels)
        assert self.sprite is not None
        return Sprite(expand_path(self.sprite), self.tile, labels, self.key)


class ImageData(Config):
    train: ImageFiles
    validation: ImageFiles | None = None
    validation_share: float = Field(0.0, ge=0, lt=1, description="or this share of the training images, by seed")
    size: int | None = Field(None, gt=0, description="pixels per side; by default those of the files")
    channels: Literal[1, 3] | None = Field(None, description="1: grey, 3: colour; by default that of the files")
    shift: int = Field(0, ge=0, description="training images are moved by at most this many pixels")
    flip: bool = Field(False, description="mirror half of the training images")

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if self.validation is not None and self.validation_share:
            raise ValueError("give either validation or validation_share")
        return self


class ImageClassificationJob(Setup):
    Data = ImageData
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "model": {"name": "vit"},
        "training": {"label_smoothing": 0.0, "rows_per_batch": 128},
    }
    offers = ("classes",)
    data: ImageData

    def task(self) -> ImageClassification:
        return ImageClassification(label_smoothing=self.recipe.training.label_smoothing)

    def files(self) -> list[Path]:
        held_out = self.data.validation.source().paths() if self.data.validation is not None else []
        return [*self._source.paths(), *held_out]

    def fixed_options(self) -> dict[str, Any]:
        size, channels = self._shape()
        # The model to start from has positions for its own image size; for other sizes they are interpolated.
        size = getattr(self.start.config, "image_size", size) if self.start is not None else size
        return {"image_size": size, "channels": channels, "n_labels": len(self.classes)}

    def encode(self, folder: Path, say: Say) -> tuple[LabelledImages, LabelledImages | None]:
        train, held_out = self._encoded(self._source, folder / "train", say), None
        if self.data.validation is not None:
            held_out = self._encoded(self.data.validation.source(), folder / "validation", say)
        elif self.data.validation_share:
            dice = Dice(self.recipe.training.seed, _SPLIT)
            train, held_out = train.split(self.data.validation_share, dice)
        self._form = self._known_form() or self._measured_form(train)
        return train, held_out

    def batches(self, examples: LabelledImages, *, shuffle: bool) -> ImageRows:
        training, data = self.recipe.training, self.data
        rows = training.rows_per_batch or 128
        return ImageRows(
            examples, self._form, rows=rows, seed=training.seed, shift=data.shift, flip=data.flip, shuffle=shuffle
        )

    def extra(self) -> dict[str, Any]:
        return {"labels": self.classes, "image": self._form.model_dump(mode="json")}

    def material(self) -> dict[str, Any]:
        return {"classes": self.classes}

    @cached_property
    def classes(self) -> list[str]:
        """The classes of the model to start from if it has those of the training images, else these."""
        own = self._source.classes()
        known = known_classes(self, own)
        return own if known is None else known

    @cached_property
    def _source(self) -> ImageSource:
        return self.data.train.source()

    def _shape(self) -> tuple[int, int]:
        """Pixels per side and channels: from the recipe, else from the model to start from, else from the files."""
        known, form = self._known_form(), self._source.form()
        files = (form[1], form[0]) if form is not None else (None, 3)
        size = self.data.size or (known.size if known is not None else files[0])
        if size is None:
            raise ConfigError("data.size is missing", expected="the pixels per side to which images are resized")
        return size, self.data.channels or (known.channels if known is not None else files[1])

    def _known_form(self) -> ImageForm | None:
        if self.start is None or "image" not in self.start.extra:
            return None
        form = ImageForm.parse(self.start.extra["image"], f"the images of {self.recipe.model.start}")
        if self.data.size in (None, form.size):
            return form
        return form.model_copy(update={"size": self.data.size, "resizing": Resizing()})

    def _measured_form(self, train: LabelledImages) -> ImageForm:
        size, channels = self._shape()
        mean, std = train.moments()
        return ImageForm.parse({"size": size, "channels": channels, "mean": mean, "std": std})

    def _encoded(self, source: ImageSource, place: Path, say: Say) -> LabelledImages:
        if not arrays.holds(place, image_rows.KIND):
            size, channels = self._shape()
            known, classes = self._known_form(), self.classes
            how = known.resizing if known is not None else None
            made = encode_images(source, place, size=size, channels=channels, classes=classes, resizing=how)
            say(f"{place.name}: {len(made):,} images")
        return LabelledImages.open(place)
