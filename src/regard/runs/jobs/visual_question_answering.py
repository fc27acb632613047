"""Questions about images, by a model that owns an image encoder.

With `encoder`, a model folder, the new model starts from that encoder's weights; `model.options.frozen` leaves them as
they are. Images are decoded once and kept as bytes. `validation_share` holds out whole images, with their questions.
A new model with differential attention gets its exemplars here, also if it starts from a model without: training images
that the seed draws, which are then not trained on. Their names are stored with the model, so that training which goes
on from it does not train on them either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self, cast

import numpy as np
import torch
from pydantic import Field, model_validator
from torch import nn

from regard.core.config import Config
from regard.core.lookup import find
from regard.core.paths import expand_path
from regard.data.archives import Archive
from regard.data.asked_images import AskedBatches, AskedImages, group, keep_pixels
from regard.data.chance import Dice
from regard.data.images import ImageForm
from regard.data.pictures import Pictures
from regard.data.visual_questions import Asked, answers_of, read_questions
from regard.evaluation.evaluators import Evaluator, make_evaluator
from regard.runs.features import encoder_place
from regard.runs.jobs._encoders import form_of, open_encoder, options_of, take_weights
from regard.runs.setup import Say, Setup, TokenizerConfig, as_usual
from regard.store import StoredModel
from regard.tasks.visual_question_answering import VisualQuestionAnswering

_SPLIT, _EXEMPLARS = 2**63, 2**63 + 1  # "epochs" for random numbers; no real epoch reaches them
_BANK = ("exemplars", "exemplar_questions", "exemplar_words")  # the sizes of the exemplars' tensors
_REMEDY = "Check data's place, questions and images."
_WORDS = TokenizerConfig(kind="word", vocab_size=10_000, lowercase=True, min_count=1)


class QuestionFiles(Config):
    """A folder or an archive that holds a file of questions and the images (`data/visual_questions.py`)."""

    place: str
    questions: str = "questions.json"
    images: str = Field("{}", description="the name of an image's file, with {} for what the questions call it")

    def read(self) -> list[Asked]:
        return read_questions(self._archive(), self.questions, self.images)

    def pictures(self) -> Pictures:
        return Pictures(expand_path(self.place), _REMEDY)

    def files(self) -> list[Path]:
        names = dict.fromkeys(entry.image for entry in self.read())
        return list(dict.fromkeys([*self._archive().files([self.questions]), *self.pictures().files(names)]))

    def _archive(self) -> Archive:
        return Archive(expand_path(self.place), remedy=_REMEDY)


class VisualQuestionData(Config):
    train: QuestionFiles
    validation: QuestionFiles | None = None
    validation_share: float = Field(0.0, ge=0, lt=1, description="or this share of the training images, by seed")
    encoder: str | None = Field(None, description="a folder with an image encoder to start from")
    size: int | None = Field(None, gt=0, le=4096, description="pixels per side; by default the encoder's or the files'")
    flip: bool = Field(False, description="mirror half of the training images")
    max_len: int = Field(32, gt=0, description="tokens per question; longer ones are cut")
    tokenizer: Annotated[TokenizerConfig, as_usual(_WORDS)] = _WORDS

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if self.validation is not None and self.validation_share:
            raise ValueError("give either validation or validation_share")
        return self


class VisualQuestionAnsweringJob(Setup):
    Data = VisualQuestionData
    from_scratch = False  # its image encoder comes from elsewhere
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "model": {"name": "vqa"},
        "training": {"label_smoothing": 0.0, "rows_per_batch": 32},
    }
    offers = ("classes",)
    data: VisualQuestionData

    def task(self) -> VisualQuestionAnswering:
        return VisualQuestionAnswering(label_smoothing=self.recipe.training.label_smoothing)

    def usual_evaluators(self) -> list[Evaluator]:
        return [make_evaluator({"name": "classes", "metrics": ["accuracy"]})] if self.validates else []

    def files(self) -> list[Path]:
        sets = [files for files in (self.data.train, self.data.validation) if files is not None]
        encoder = [] if self.data.encoder is None else encoder_place(expand_path(self.data.encoder))
        return [*dict.fromkeys(path for files in sets for path in files.files()), *encoder]

    def fixed_options(self) -> dict[str, Any]:
        return {} if self._encoder is None else options_of(self._encoder)

    def texts(self) -> dict[str, Callable[[], Iterable[str]]]:
        return {"source": lambda: (entry.question for entry in self._asked)}

    def encode(self, folder: Path, say: Say) -> tuple[AskedImages, AskedImages | None]:
        train, held_out, seed = self._images(self.data.train, folder / "train"), None, self.recipe.training.seed
        if self.data.validation is not None:
            held_out = self._images(self.data.validation, folder / "validation")
        elif self.data.validation_share:
            count = max(1, round(self.data.validation_share * len(train)))
            train, held_out = train.split(count, Dice(seed, _SPLIT))
        if self._differs and not self._has_exemplars:
            train, self._exemplars = train.split(self._option("exemplars"), Dice(seed, _EXEMPLARS))
            self._exemplar_names = [self._names[row] for row in self._exemplars.rows]
        elif self._differs and not self.evaluating:
            train = self._without_exemplars(train)
        for name, images in (("train", train), ("validation", held_out), ("exemplars", self._exemplars)):
            if images is not None:
                say(f"{name}: {len(images):,} images, {images.n_questions:,} questions")
        return train, held_out

    def sizes(self) -> dict[str, Any]:
        if self.start is not None:
            return {}
        given = {**self.recipe.model.options, **self.fixed_options()}.get("encoder_options", {})
        form = {"image_size": self._form.size, "channels": self._form.channels}
        return {"n_labels": len(self.answers), "encoder_options": {**given, **form}}

    def batches(self, examples: AskedImages, *, shuffle: bool) -> AskedBatches:
        assert self.tokenizer is not None
        training = self.recipe.training
        return AskedBatches(
            examples,
            self._form,
            padding=self.tokenizer.pad,
            rows=training.rows_per_batch or 32,
            seed=training.seed,
            flip=self.data.flip,
            shuffle=shuffle,
        )

    def initialise(self, model: nn.Module) -> list[str]:
        """Give a new model the encoder's weights and, for differential attention, its exemplars."""
        lines = [] if self._encoder is None else take_weights(model, self._encoder, self.data.encoder)
        images, bank = self._exemplars, getattr(model, "bank", None)
        if images is None or bank is None or self.tokenizer is None:
            return lines
        tensors = images.tensors(np.arange(len(images)), self._form, self.tokenizer.pad)
        bank.fill(*(tensors[name] for name in ("pixel_values", "input_ids", "attention_mask", "labels")))
        return [*lines, f"{len(images)} training images are exemplars"]

    def extra(self) -> dict[str, Any]:
        exemplars = {"exemplars": self._exemplar_names} if self._exemplar_names else {}
        return {"labels": self.answers, "image": self._form.model_dump(mode="json"), **exemplars}

    def material(self) -> dict[str, Any]:
        return {"classes": self.answers}

    @cached_property
    def answers(self) -> list[str]:
        """The answers to choose from: those in training, or of the model to start from."""
        if self.start is not None:
            return [str(name) for name in self.start.extra.get("labels", [])]
        return answers_of(self._asked)

    @cached_property
    def _asked(self) -> list[Asked]:
        return self.data.train.read()

    @cached_property
    def _names(self) -> list[str]:
        """The training images, in the order in which they are asked about."""
        return list(dict.fromkeys(entry.image for entry in self._asked))

    _exemplars: AskedImages | None = None
    """The exemplars that are drawn for a new model."""
    _exemplar_names: Sequence[str] = ()
    _form: ImageForm

    def _images(self, files: QuestionFiles, place: Path) -> AskedImages:
        """All images of some files, in the order in which they are asked about."""
        assert self.tokenizer is not None
        asked = self._asked if files is self.data.train else files.read()
        names = self._names if files is self.data.train else list(dict.fromkeys(entry.image for entry in asked))
        pixels = keep_pixels(place, files.pictures(), names, self._known_form())
        if "_form" not in vars(self):
            self._form = self._known_form() or _form(pixels.shape[2])
        return group(asked, names, pixels, self.tokenizer, self.answers, self.data.max_len)

    def _without_exemplars(self, train: AskedImages) -> AskedImages:
        """The training images that are not exemplars of the model to start from."""
        assert self.start is not None
        self._exemplar_names = [str(name) for name in self.start.extra.get("exemplars", ())]
        places, bank = {name: row for row, name in enumerate(self._names)}, cast(Any, self.start.model).bank
        # Pictures of other data may have the same names.
        aside = [
            places[name]
            for name, seen in zip(self._exemplar_names, bank.pixel_values, strict=False)
            if name in places and torch.allclose(self._form.tensor(train.pixels[[places[name]]])[0], seen, atol=0.01)
        ]
        return train.without(aside)

    def _known_form(self) -> ImageForm | None:
        """How images are prepared: as the model to start from says, or resized as the recipe says."""
        if "_form" in vars(self):
            return self._form
        if self.start is not None:
            return ImageForm.parse(self.start.extra.get("image", {}), f"the images of {self.recipe.model.start}")
        size = {} if self.data.size is None else {"size": self.data.size}
        if self._encoder is not None:
            return form_of(self._encoder, self.data.encoder, stretch=True).model_copy(update=size)
        return _form(self.data.size) if self.data.size is not None else None

    @cached_property
    def _encoder(self) -> StoredModel | None:
        """The encoder to start from."""
        if self.start is not None:
            return None
        return open_encoder(self.data.encoder, frozen=bool(self._option("frozen")))

    @property
    def _differs(self) -> bool:
        return bool(self._option("differential") != "none")

    @property
    def _has_exemplars(self) -> bool:
        """Whether the model to start from has exemplars that the new model takes over."""
        if self.start is None or getattr(self.start.model, "bank", None) is None:
            return False
        return all(getattr(self.start.config, name) == self._option(name) for name in _BANK)

    def _option(self, name: str) -> Any:
        """An option of the new model: as the recipe says, else as its size or the model to start from says."""
        model = find("regard.models", self.model_name)
        sized = model.SIZES.get(self.recipe.model.size, {}) if self.recipe.model.size else {}
        before = self.start.config.model_dump() if self.start is not None else {}
        return {**sized, **before, **self.recipe.model.options}.get(name, model.Config.model_fields[name].default)


def _form(size: int) -> ImageForm:
    return ImageForm(size=size, mean=(0.5,) * 3, std=(0.5,) * 3)
