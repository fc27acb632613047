"""Captioning from pictures with several captions each, by a model that owns an image encoder.

With `encoder`, a model folder, the new model starts from that encoder's weights. While it is frozen its features are
computed once and kept (`runs/features.py`); with `flip` those of mirrored images too. Without `encoder` the encoder is
trained with the rest, from pixels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field, ValidationInfo, field_validator
from torch import nn

from regard.core.config import Config
from regard.core.errors import ConfigError, DataError
from regard.core.lines import read_lines
from regard.core.lookup import find
from regard.core.paths import expand_path
from regard.data.captions import CaptionBatches, Captioned, CaptionRows, read_captions, words_only
from regard.data.images import ImageForm
from regard.data.kept_features import ImageTensors, KeptFeatures, PixelRows, WithBlanks
from regard.data.pictures import Pictures
from regard.evaluation.evaluators import Evaluator, make_evaluator
from regard.runs.features import encoder_place, features_of
from regard.runs.jobs._encoders import form_of, open_encoder, options_of, take_weights
from regard.runs.own_captions import LONGEST, OwnCaptions
from regard.runs.recipe import Recipe
from regard.runs.setup import Say, Setup, TokenizerConfig, completed
from regard.store import StoredModel
from regard.tasks.captioning import Captioning

_MODELS = "regard.models"
_WORDS = TokenizerConfig(kind="space", vocab_size=10_000, lowercase=True, min_count=3)
_WORDS_AND_PUNCTUATION = _WORDS.model_copy(update={"kind": "word"})


class CaptionFiles(Config):
    """Pictures in a folder or a tar archive, and a file of captions (`data/captions.py`)."""

    images: str
    captions: str
    split: str | None = Field(None, description="only the entries of this split")

    def read(self) -> list[Captioned]:
        return read_captions(expand_path(self.captions), self.split)

    def pictures(self) -> Pictures:
        return Pictures(expand_path(self.images))


class UnseenFiles(Config):
    """Captions of images that are not there."""

    captions: str
    split: str | None = Field(None, description="only the entries of this split")
    names: str | None = Field(None, description="a file with the names of the images to take, one a line")

    def paths(self) -> list[Path]:
        return [expand_path(name) for name in (self.captions, self.names) if name is not None]

    def read(self) -> list[Captioned]:
        captioned = read_captions(expand_path(self.captions), self.split)
        if self.names is None:
            return captioned
        wanted = {line.strip() for line in read_lines(expand_path(self.names))}
        return [entry for entry in captioned if entry.image in wanted]


class CaptioningData(Config):
    train: CaptionFiles
    unseen: UnseenFiles | None = Field(
        None, description="captions of other images, to learn their language from: the model sees zeros for the image"
    )
    validation: CaptionFiles | None = None
    encoder: str | None = Field(None, description="a folder with an image encoder to start from")
    stretch: bool = Field(True, description="the whole image, stretched; false: cut as the encoder's folder says")
    size: int = Field(64, gt=0, description="pixels per side, if there is no encoder to start from")
    keep: bool = Field(True, description="compute the features of a frozen encoder once, and keep them")
    flip: bool = Field(False, description="mirror half of the training images")
    words_only: bool = Field(True, description="lower-case words without punctuation")
    samples: int = Field(
        0,
        ge=0,
        le=100,
        description="captions that the model samples of each image, to learn from their BLEU; 0: none. Then "
        "training.rows_per_batch counts images, and training.metric should be that of captions, such as bleu_4",
    )
    tokenizer: TokenizerConfig = TokenizerConfig()

    @field_validator("tokenizer")
    @classmethod
    def _usual(cls, given: TokenizerConfig, info: ValidationInfo) -> TokenizerConfig:
        """A tokenizer of words and punctuation would split "tri-colored" and "man's", which `words_only` keeps."""
        return completed(given, _WORDS if info.data.get("words_only", True) else _WORDS_AND_PUNCTUATION)


class CaptioningJob(Setup):
    Data = CaptioningData
    from_scratch = False  # its image encoder comes from elsewhere
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "model": {"name": "show_attend_tell"},
        "training": {"label_smoothing": 0.0},
    }
    offers = ("inputs", "references")
    two_passes: ClassVar[bool] = True
    data: CaptioningData

    def __init__(self, recipe: Recipe, start: StoredModel | None) -> None:
        super().__init__(recipe, start)
        training = recipe.training
        if self.data.samples == 1:
            remedy = "Set it to 5, for example: each caption is compared with the others of its image."
            raise ConfigError("data.samples is too small", got=1, expected="0, or 2 and more", remedy=remedy)
        for name in ("label_smoothing", "r_drop"):
            if self.data.samples and (value := getattr(training, name)):
                remedy = f"Set training.{name} to 0."
                raise ConfigError(f"training.{name} does nothing with data.samples", got=value, remedy=remedy)

    def task(self) -> Captioning:
        training = self.recipe.training
        return Captioning(label_smoothing=training.label_smoothing, r_drop=training.r_drop)

    def usual_evaluators(self) -> list[Evaluator]:
        return [make_evaluator("caption_bleu"), make_evaluator("chrf")] if self.validates else []

    def files(self) -> list[Path]:
        sets = [files for files in (self.data.train, self.data.validation) if files is not None]
        names = [files.pictures().files(entry.image for entry in files.read()) for files in sets]
        encoder = [] if self.data.encoder is None else encoder_place(expand_path(self.data.encoder))
        captions = [expand_path(files.captions) for files in sets]
        unseen = [] if self.data.unseen is None else self.data.unseen.paths()
        return [*captions, *(path for some in names for path in some), *encoder, *unseen]

    def fixed_options(self) -> dict[str, Any]:
        if self.start is not None:
            return {}
        return {} if self._encoder is None else options_of(self._encoder)

    def texts(self) -> dict[str, Callable[[], Iterable[str]]]:
        return {
            "source": lambda: (
                text for entry in [*self._captioned(self.data.train), *self._unseen] for text in entry.captions
            )
        }

    def encode(self, folder: Path, say: Say) -> tuple[CaptionRows, CaptionRows | None]:
        self._train = train = self._rows(self.data.train, say, flip=self.data.flip)
        say(f"train: {len(train.captioned):,} images, {len(train.lengths):,} captions")
        self._held_out = None if self.data.validation is None else self._rows(self.data.validation, say, flip=False)
        if self.start is None:  # an evaluation needs no features of the training images
            for rows in filter(None, (train, self._held_out)):
                _ = rows.images
        return (self._with_unseen(train, say) if self._unseen else train), self._held_out

    def batches(self, examples: CaptionRows, *, shuffle: bool) -> CaptionBatches:
        training, _ = self.recipe.training, examples.images
        return CaptionBatches(
            examples,
            tokens_per_batch=training.tokens_per_batch,
            seed=training.seed,
            max_rows=training.rows_per_batch,
            shuffle=shuffle,
        )

    def initialise(self, model: nn.Module) -> list[str]:
        """Give a new model the encoder's weights; its classifier is left out."""
        if self.start is not None or self._encoder is None:
            return []
        return take_weights(model, self._encoder, self.data.encoder)

    def experience(self, model: nn.Module) -> OwnCaptions | None:
        """With `data.samples`, the model learns from its own captions and not from people's."""
        if not self.data.samples:
            return None
        assert self.tokenizer is not None
        training = self.recipe.training
        if getattr(model, "hard", None) is not None:
            remedy = "Leave data.samples out, or set model.options.attention to soft."
            raise ConfigError("data.samples needs soft attention", got="hard attention", remedy=remedy)
        images = training.rows_per_batch or max(1, training.tokens_per_batch // (LONGEST * self.data.samples))
        return OwnCaptions(
            model, self._train, self.tokenizer, images=images, samples=self.data.samples, seed=training.seed
        )

    def extra(self) -> dict[str, Any]:
        return {"image": self._form.model_dump(mode="json"), "words_only": self.data.words_only}

    def material(self) -> dict[str, Any]:
        assert self._held_out is not None
        images, entries = self._held_out.images, self._held_out.captioned
        inputs: list[Any] = images.rows() if isinstance(images, KeptFeatures) else []
        if isinstance(images, PixelRows):
            inputs = [partial(images.opened, name) for name in images.names]
        references = [list(filter(None, map(words_only, entry.captions))) or [""] for entry in entries]
        learnt = self.data.words_only and (self.start is None or self.start.extra.get("words_only", True))
        form = {} if learnt else {"form": words_only}
        return {"inputs": inputs, "references": references, "names": [entry.image for entry in entries], **form}

    @cached_property
    def _encoder(self) -> StoredModel | None:
        """The encoder to start from."""
        return open_encoder(self.data.encoder, frozen=self.start is None and self._frozen)

    @property
    def _frozen(self) -> bool:
        """Whether the new model leaves its encoder as it is: as the recipe says, else as the model to start from."""
        usual = True if self.start is None else getattr(self.start.config, "frozen", False)
        return bool(self.recipe.model.options.get("frozen", usual))

    @cached_property
    def _form(self) -> ImageForm:
        if self.start is not None:
            return ImageForm.parse(self.start.extra.get("image", {}), f"the images of {self.recipe.model.start}")
        if self._encoder is None:
            return ImageForm(size=self.data.size, mean=(0.5,) * 3, std=(0.5,) * 3)
        return form_of(self._encoder, self.data.encoder, stretch=self.data.stretch)

    @cached_property
    def _unseen(self) -> list[Captioned]:
        """The captions of images that are not there; those of the other files' images are left out."""
        if self.data.unseen is None:
            return []
        sets = [files for files in (self.data.train, self.data.validation) if files is not None]
        known = {entry.image for files in sets for entry in files.read()}
        left = [entry for entry in self._captioned(self.data.unseen) if entry.image not in known]
        if not left:
            remedy = "Check its names; images of data.train and data.validation are left out."
            raise DataError(
                "no caption of data.unseen is of another image", got=self.data.unseen.captions, remedy=remedy
            )
        return left

    def _with_unseen(self, train: CaptionRows, say: Say) -> CaptionRows:
        assert self.tokenizer is not None
        say(f"captions of images that are not there: {sum(len(entry.captions) for entry in self._unseen):,}")
        count = len(train.captioned)
        return CaptionRows([*train.captioned, *self._unseen], lambda: WithBlanks(train.images, count), self.tokenizer)

    def _captioned(self, files: CaptionFiles | UnseenFiles) -> list[Captioned]:
        if not self.data.words_only:
            return files.read()
        cleaned = [(entry.image, tuple(filter(None, map(words_only, entry.captions)))) for entry in files.read()]
        return [Captioned(image, captions) for image, captions in cleaned if captions]

    def _rows(self, files: CaptionFiles, say: Say, *, flip: bool) -> CaptionRows:
        assert self.tokenizer is not None
        captioned = self._captioned(files)
        see = partial(self._images, files.pictures(), captioned, say, flip)
        return CaptionRows(captioned, see, self.tokenizer)

    def _images(self, pictures: Pictures, captioned: list[Captioned], say: Say, flip: bool) -> ImageTensors:
        names = [entry.image for entry in captioned]
        encoder: Any = None
        if self.start is not None:
            encoder = self.start.model.encoder
        elif self._encoder is not None:
            encoder = self._encoder.model
        if not self.data.keep or not self._frozen or encoder is None:
            return PixelRows(names, pictures.open, self._form, versions=1 + flip)
        whole = find(_MODELS, self.model_name).whole
        return features_of(pictures, names, encoder, self._form, mirrored=flip, whole=whole, say=say)
