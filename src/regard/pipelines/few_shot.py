"""Classifies images by a few labelled ones: the support set, a folder with one subfolder per class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.core.errors import ConfigError, DataError, UsageError
from regard.core.output import Output
from regard.core.paths import IMAGE_SUFFIXES
from regard.data.class_images import with_bright_ink
from regard.data.image_files import ImageFolder
from regard.data.images import ImageForm, open_image, prepared, upright
from regard.explain import Subject
from regard.pipelines import _subjects as subjects
from regard.pipelines._classes import Classified, classified
from regard.pipelines._image_form import image_form
from regard.pipelines._loaded import Loaded
from regard.pipelines._verbs import verb

Support = str | Path | Mapping[str, Sequence[Any]]
"""A folder, or the images of each class by its name."""
_SMALLEST = 2


@dataclass(frozen=True)
class Shots:
    """The support set: `images` [S,C,size,size], the label and title of each, and the names of the classes."""

    images: Tensor
    labels: Tensor
    titles: tuple[str, ...]
    classes: tuple[str, ...]


class FewShotPipeline(Loaded):
    usage = "regard classify FOLDER --support SUPPORT image.png"
    accepts = ("image", "support")
    passed_over: tuple[str, ...] = ()
    """The files of the last support folder whose names are not those of images."""

    @verb("a model with a classifier")
    def classify(
        self, images: Sequence[str | Path | Any], *, support: Support | None = None, rows: int = 32
    ) -> list[Classified]:
        """The class of each image, one of those in the support set."""
        if isinstance(images, (str, Path)):
            raise UsageError("images must be a list", got="one path", remedy="Put it into a list.")
        shots, results = self.shots(support), list[Classified]()
        for start in range(0, len(images), rows):
            asked = torch.stack([self._pixels(image) for image in images[start : start + rows]])
            with torch.inference_mode():
                logits = self._ask(self.model, shots, asked).logits
            assert logits is not None
            results += [classified(shots.classes, row, {}) for row in logits.softmax(-1).tolist()]
        return results

    def shots(self, support: Support | None) -> Shots:
        """Read a support set; it is refused if the model was not trained for its size."""
        given = self._listed(support)
        self._check(given)
        # One image of each class, then the second of each: in training the order is random.
        most = max(len(images) for images in given.values())
        order = [(place, name) for place in range(most) for name in given if place < len(given[name])]
        names = tuple(given)
        images = torch.stack([self._pixels(given[name][place]) for place, name in order])
        titles = tuple(f"{name} {place + 1}" if most > 1 else name for place, name in order)
        return Shots(images, torch.tensor([names.index(name) for _, name in order]), titles, names)

    def subject(self, inputs: Any, target: Any = None, **_: Any) -> Subject:
        """One image or several; the target is the support set. The number is log p of the most likely class."""
        images = [inputs] if isinstance(inputs, (str, Path)) or not isinstance(inputs, Sequence) else list(inputs)
        if not images:
            raise UsageError("there is nothing to explain: no image")
        shots, asked = self.shots(target), torch.stack([self._pixels(image) for image in images])
        count = len(images)

        def run(images: Tensor, labels: Tensor) -> Output:
            output: Output = self.model(images, labels)
            assert output.logits is not None
            return Output(output.hidden, output.logits[:, 0, : len(shots.classes)])

        whole = torch.cat([shots.images.expand(count, *shots.images.shape), asked[:, None]], 1)
        tensors = {"images": whole, "labels": shots.labels.expand(count, -1)}
        with torch.no_grad():
            shares = run(**tensors).logits.float().softmax(-1)  # type: ignore[union-attr]
        best = shares.argmax(-1, keepdim=True)
        named = [[shots.classes[int(place)], float(row[place])] for place, row in zip(best, shares, strict=True)]
        return Subject(
            self.stored.name,
            self.stored.task,
            run,
            tensors,
            {"input": [[*shots.titles, "?"]] * count},
            subjects.class_score,
            {"wanted": best},
            output={"classes": named},
            head_logits=self.model.head_logits,
            label=lambda number: shots.classes[number] if number < len(shots.classes) else f"unused {number}",
            untrained=subjects.untrained(self, lambda other: other.subject(inputs, target)),
            texts=[f"{Path(image).name if isinstance(image, (str, Path)) else 'an image'}" for image in images],
        )

    @property
    def form(self) -> ImageForm:
        form = image_form(self.stored.extra)
        if (form.channels, form.size) != (self.config.channels, self.config.image_size):
            got = f"{form.channels} channels, {form.size} pixels"
            raise ConfigError("the image settings do not fit the model", got=got)
        return form

    def _ask(self, model: Any, shots: Shots, asked: Tensor) -> Output:
        """Logits [Q,ways of the support set] of the images."""
        images = torch.cat([shots.images, asked])[None]
        output: Output = model(images, shots.labels[None])
        assert output.logits is not None
        return Output(output.hidden, output.logits[0, :, : len(shots.classes)].float())

    def _listed(self, support: Support | None) -> dict[str, list[Any]]:
        if support is None:
            remedy = "Give --support FOLDER, with one subfolder of images per class."
            raise UsageError("this model learns its classes from a few labelled images", remedy=remedy)
        if isinstance(support, Mapping):
            return {str(name): list(images) for name, images in support.items()}
        folder = ImageFolder(Path(support))
        files = {name: folder.files_of(name) for name in folder.classes()}
        others = [path for paths in files.values() for path in paths if path.suffix.lower() not in IMAGE_SUFFIXES]
        self.passed_over = tuple(map(str, others))
        return {name: [path for path in paths if path not in others] for name, paths in files.items()}

    def _check(self, given: Mapping[str, Sequence[Any]]) -> None:
        ways = self.config.n_outputs
        shots = (self.config.seq_len - 1) // ways
        if not any(given.values()):
            raise DataError("the support set is empty", expected="images of two classes or more")
        if empty := [name for name, images in given.items() if not images]:
            raise DataError(f"class {empty[0]!r} of the support set has no images", remedy="Add some, or remove it.")
        if len(given) < 2:
            remedy = "Add a second subfolder: with one class there is nothing to choose."
            raise DataError("the support set has one class only", got=next(iter(given)), remedy=remedy)
        most = max(given, key=lambda name: len(given[name]))
        if len(given) > ways or len(given[most]) > shots:
            raise UsageError(
                "the support set is larger than the model was trained for",
                got=f"{len(given)} classes, {len(given[most])} images of {most!r}",
                expected=f"at most {ways} classes of {shots} each",
                remedy="Give fewer, or train with more data.ways and data.shots.",
            )

    def _pixels(self, image: Any) -> Tensor:
        """An image file or an open image as the model reads it [C,size,size]."""
        form, path = self.form, isinstance(image, (str, Path))
        opened = open_image(image) if path else upright(image)
        if min(opened.size) < _SMALLEST:
            got = f"{opened.width} × {opened.height} pixels"
            name = str(image) if path else "an image"
            raise DataError(f"{name} is too small to show anything", got=got, expected=f"{_SMALLEST} per side or more")
        pixels = prepared(opened, form.size, form.channels, form.resizing)
        return form.tensor((with_bright_ink(pixels) if self.stored.extra.get("invert") else pixels)[None].copy())[0]
