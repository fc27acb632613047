"""Labelled images on disk, and batches of them.

    pixels    bytes, [C,H,W] of one image after the other        labels    the class number of each image

With `shift`, an image is moved by up to that many pixels each way, with black at the edges. With `flip`, it is randomly
mirrored. Both, and the order, depend only on the seed, the epoch and the image's number.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from regard.core.batch import Batch
from regard.core.errors import DataError
from regard.core.image_settings import Resizing
from regard.data import arrays
from regard.data.arrays import Array
from regard.data.chance import Dice, Ints
from regard.data.epochs import Epochs
from regard.data.image_files import ImageSource
from regard.data.images import ImageForm, Pixels, prepared

KIND = "regard.images"
_TOGETHER = 1024


@dataclass(frozen=True)
class LabelledImages:
    """Some of the images in a folder; the arrays are memory-mapped, so unused images are not read."""

    pixels: Array
    """The pixels [N,C,H,W] of all images in the folder."""
    labels: Array
    rows: Ints
    """The numbers of the selected images."""

    def __len__(self) -> int:
        return len(self.rows)

    @classmethod
    def open(cls, folder: Path) -> LabelledImages:
        files, facts = arrays.opened(folder, KIND)
        shape = -1, int(facts["channels"]), int(facts["size"]), int(facts["size"])
        return cls(files["pixels"].reshape(shape), files["labels"], np.arange(len(files["labels"])))

    def split(self, share: float, dice: Dice) -> tuple[LabelledImages, LabelledImages]:
        """Split off a random `share`: return the other images, and that share."""
        order, count = dice.order(len(self)), max(1, round(share * len(self)))
        if count >= len(self):
            raise DataError("too few images to hold some out", got=len(self), expected="2 or more")
        kept, held_out = (self.rows[np.sort(part)] for part in (order[count:], order[:count]))
        return LabelledImages(self.pixels, self.labels, kept), LabelledImages(self.pixels, self.labels, held_out)

    def moments(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Mean and standard deviation of each colour, for pixels from 0 to 1."""
        levels = np.zeros((self.pixels.shape[1], 256))
        for at in range(0, len(self), _TOGETHER):
            some = self.pixels[self.rows[at : at + _TOGETHER]]
            levels += [np.bincount(some[:, colour].reshape(-1), minlength=256) for colour in range(len(levels))]
        shares, values = levels / levels.sum(1, keepdims=True), np.arange(256) / 255
        mean = shares @ values
        spread = np.sqrt(np.maximum(shares @ values**2 - mean**2, 0))
        # The standard deviation of a constant colour is 0, and we divide by it.
        kept = np.where(spread > 1e-4, spread, 1.0)
        return tuple(round(float(value), 4) for value in mean), tuple(round(float(value), 4) for value in kept)


def encode_images(
    source: ImageSource,
    folder: Path,
    *,
    size: int,
    channels: int,
    classes: list[str],
    resizing: Resizing | None = None,
) -> LabelledImages:
    """Write the source's images into the folder, replacing its contents; classes are matched by name."""
    numbers = {name: number for number, name in enumerate(classes)}
    names = source.classes()
    if unknown := [name for name in names if name not in numbers]:
        got, expected = ", ".join(unknown[:5]), ", ".join(classes[:10]) + ("…" if len(classes) > 10 else "")
        raise DataError("some classes do not occur in training", got=got, expected=expected)
    facts = {"channels": channels, "size": size}
    with arrays.writing(folder, KIND, {"pixels": "|u1", "labels": "<i8"}, facts) as files:
        for image, label in source.images():
            if not 0 <= label < len(names):
                raise DataError("a label is not a class number", got=label, expected=f"0 to {len(names) - 1}")
            files["pixels"].write(prepared(image, size, channels, resizing))
            files["labels"].write([numbers[names[label]]])
        if not files["labels"].items:
            raise DataError(f"{', '.join(map(str, source.paths()))} holds no images")
    return LabelledImages.open(folder)


class ImageRows(Epochs):
    """Batches with `pixel_values` [B,C,H,W] and `labels` [B]; without `shuffle`, in order and unchanged.

    Every image is in one batch of an epoch.
    """

    def __init__(
        self,
        images: LabelledImages,
        form: ImageForm,
        *,
        rows: int,
        seed: int,
        shift: int = 0,
        flip: bool = False,
        shuffle: bool = True,
    ) -> None:
        super().__init__(seed=seed, shuffle=shuffle)
        self.images, self.form, self.rows = images, form, rows
        self.shift, self.flip = shift, flip

    def plan(self, number: int) -> list[Ints]:
        count = len(self.images)
        order = Dice(self.seed, number).order(count) if self.shuffle else np.arange(count)
        return [order[at : at + self.rows] for at in range(0, count, self.rows)]

    def batch(self, rows: Ints, number: int) -> Batch:
        pixels = np.stack([self._changed(row, number) for row in rows.tolist()])
        labels = torch.from_numpy(self.images.labels[self.images.rows[rows]].astype(np.int64))
        return Batch({"pixel_values": self.form.tensor(pixels), "labels": labels}, tuple(rows.tolist()))

    def _changed(self, row: int, number: int) -> Pixels:
        image: Pixels = self.images.pixels[self.images.rows[row]]
        if not self.shuffle or not (self.shift or self.flip):
            return image
        dice = Dice(self.seed, number, row)
        down, right = dice.below(2 * self.shift + 1, 2).tolist()
        if self.shift:
            around = (self.shift, self.shift)
            size = image.shape[1:]
            image = np.pad(image, ((0, 0), around, around))[:, down : down + size[0], right : right + size[1]]
        return image[:, :, ::-1] if self.flip and dice.share() < 0.5 else image
