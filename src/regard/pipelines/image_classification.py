"""Classifies images: files or open images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from regard.core.errors import ConfigError, UsageError
from regard.data.images import ImageForm
from regard.explain import Subject
from regard.pipelines import _subjects as subjects
from regard.pipelines._classes import Classified, class_names, classified, probabilities
from regard.pipelines._image_form import image_form
from regard.pipelines._loaded import Loaded
from regard.pipelines._verbs import verb


class ImageClassificationPipeline(Loaded):
    """The settings for preparing images are stored with the model."""

    usage = "regard classify FOLDER image.png"
    accepts = ("image",)

    @property
    def form(self) -> ImageForm:
        form = image_form(self.stored.extra)
        if form.channels != self.config.channels:
            raise ConfigError("the image settings do not fit the model", got=f"{form.channels} channels")
        return form

    @verb("a model with a classifier")
    def classify(self, images: Sequence[str | Path | Any], *, rows: int = 32) -> list[Classified]:
        """The class of each image."""
        if isinstance(images, (str, Path)):
            raise UsageError("images must be a list", got="one path", remedy="Put it into a list.")
        if not self.config.n_labels:
            raise UsageError("this image encoder has no classifier", remedy="Use embed(), or fine-tune it.")
        results: list[Classified] = []
        extra = self.stored.extra
        names = class_names(extra, self.config.n_labels)
        model = self.runner(len(images) * self.model.n_patches)
        for start in range(0, len(images), rows):
            with torch.inference_mode():
                logits = model(self.form.pixel_values(images[start : start + rows])).logits
            results += [classified(names, row, extra) for row in probabilities(logits, extra).tolist()]
        return results

    def subject(self, inputs: Any, target: Any = None, **_: Any) -> Subject:
        """One image or several."""
        images = [inputs] if isinstance(inputs, (str, Path)) or not isinstance(inputs, Sequence) else inputs
        return subjects.image_subject(self, images)

    @verb("an encoder")
    def embed(
        self,
        images: Sequence[str | Path | Any],
        *,
        rows: int = 32,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> torch.Tensor:
        """The pooled vector of each image at length 1 [N,D]. `on_progress` gets the images done since its last call."""
        if isinstance(images, (str, Path)):
            raise UsageError("images must be a list", got="one path", remedy="Put it into a list.")
        parts, model = [], self.runner(len(images) * self.model.n_patches)
        for start in range(0, len(images), rows):
            with torch.inference_mode():
                pooled = model(self.form.pixel_values(images[start : start + rows])).pooled
                parts.append(F.normalize(pooled, dim=-1))
            if on_progress is not None:
                on_progress(len(parts[-1]), 0)
        return torch.cat(parts).clone() if parts else torch.empty(0, self.config.d_model)
