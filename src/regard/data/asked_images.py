"""Images with their questions, as batches.

A row is an image with all its questions, so that a model reads each image once:

    pixel_values [B,C,H,W]        input_ids, attention_mask [B,N,T]        labels, numbers [B,N]

If an image has fewer than N questions, the others have the label −100 and no real tokens. `numbers` are the numbers of
the questions in the file. Pixels are decoded once and kept as bytes in a memory-mapped file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from regard.core.batch import Batch, pad
from regard.core.errors import DataError
from regard.data import arrays
from regard.data.arrays import Array
from regard.data.chance import Dice, Ints
from regard.data.epochs import Epochs
from regard.data.images import ImageForm, prepared
from regard.data.pictures import Pictures
from regard.data.text import Tokenizer
from regard.data.visual_questions import Asked

KIND = "regard.pictures"
NO_ANSWER = -100


def keep_pixels(folder: Path, pictures: Pictures, names: Sequence[str], form: ImageForm | None) -> Array:
    """The pixels [N,C,H,W] of these pictures, decoded once. Without a form all must be squares of one size."""
    if not arrays.holds(folder, KIND):
        size, channels = (form.size, form.channels) if form is not None else (_one_size(pictures, names), 3)
        with arrays.writing(folder, KIND, {"pixels": "|u1"}, {"size": size, "channels": channels}) as flat:
            for name in names:
                image = pictures.open(name)
                if form is None and image.size != (size, size):
                    raise _unlike(name, image.size, f"{size} × {size}, as of {names[0]}")
                how = None if form is None else form.resizing
                flat["pixels"].write(prepared(image, size, channels, how))
    files, facts = arrays.opened(folder, KIND)
    return files["pixels"].reshape(-1, int(facts["channels"]), int(facts["size"]), int(facts["size"]))


def _one_size(pictures: Pictures, names: Sequence[str]) -> int:
    width, height = pictures.open(names[0]).size
    if width != height:
        raise _unlike(names[0], (width, height), "squares")
    return width


def _unlike(name: str, size: tuple[int, int], expected: str) -> DataError:
    got = f"{size[0]} × {size[1]} pixels of {name}"
    return DataError("the images differ in size", got=got, expected=expected, remedy="Set data.size: it resizes all.")


@dataclass(frozen=True)
class AskedImages:
    """Images with their questions; `rows` are the images that this set has, by number."""

    pixels: Array
    rows: Ints
    ids: list[list[list[int]]]
    """The tokens of each question of each image."""
    labels: list[list[int]]
    numbers: list[list[int]]

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def n_questions(self) -> int:
        return sum(len(self.labels[row]) for row in self.rows.tolist())

    def split(self, count: int, dice: Dice) -> tuple[AskedImages, AskedImages]:
        """Split off `count` random images with their questions: return the other images, then these."""
        if not 0 < count < len(self):
            raise DataError("too few images to hold some out", got=len(self), expected=f"more than {count}")
        order = dice.order(len(self))
        rest, taken = (self.rows[np.sort(part)] for part in (order[count:], order[:count]))
        return replace(self, rows=rest), replace(self, rows=taken)

    def without(self, rows: Sequence[int]) -> AskedImages:
        """The images of this set but those with these numbers."""
        rest = self.rows[~np.isin(self.rows, rows)]
        if not len(rest):
            remedy = "Add images, or start from another model."
            raise DataError("no image is left to train on: all are exemplars", got=len(self), remedy=remedy)
        return replace(self, rows=rest)

    def tensors(self, rows: Ints, form: ImageForm, padding: int) -> dict[str, Tensor]:
        """The tensors of a batch of images, by their number in this set."""
        chosen = self.rows[rows]
        most = max(len(self.labels[row]) for row in chosen)
        fill = [most - len(self.labels[row]) for row in chosen]
        questions = [ids for row, empty in zip(chosen, fill, strict=True) for ids in [*self.ids[row], *[[]] * empty]]
        ids, real = pad(questions, value=padding)
        beside = {
            name: torch.tensor([[*each[row], *[NO_ANSWER] * empty] for row, empty in zip(chosen, fill, strict=True)])
            for name, each in (("labels", self.labels), ("numbers", self.numbers))
        }
        shape = len(chosen), most, -1
        pixels = form.tensor(np.ascontiguousarray(self.pixels[chosen]))
        return {"pixel_values": pixels, "input_ids": ids.view(shape), "attention_mask": real.view(shape), **beside}


def group(asked: Sequence[Asked], names: Sequence[str], pixels: Array, tokenizer: Tokenizer, answers: Sequence[str],
          longest: int) -> AskedImages:  # fmt: skip
    """All questions by their images, as tokens; longer questions are cut."""
    place, known = ({name: number for number, name in enumerate(each)} for each in (names, answers))
    ids: list[list[list[int]]] = [[] for _ in names]
    labels: list[list[int]] = [[] for _ in names]
    numbers: list[list[int]] = [[] for _ in names]
    encoded = tokenizer.encode_batch([entry.question for entry in asked])
    for number, (entry, tokens) in enumerate(zip(asked, encoded, strict=True)):
        if entry.answer not in known:
            got, expected = repr(entry.answer[:40]), ", ".join(answers[:10]) + ("…" if len(answers) > 10 else "")
            raise DataError(
                f"the answer of question {number + 1} does not occur in training", got=got, expected=expected
            )
        row = place[entry.image]
        ids[row].append(tokens[:longest])
        labels[row].append(known[entry.answer])
        numbers[row].append(number)
    return AskedImages(pixels, np.arange(len(names)), ids, labels, numbers)


class AskedBatches(Epochs):
    """Batches of `rows` images; with `flip`, training images are randomly mirrored."""

    def __init__(
        self,
        images: AskedImages,
        form: ImageForm,
        *,
        padding: int,
        rows: int,
        seed: int,
        flip: bool = False,
        shuffle: bool = True,
    ) -> None:
        super().__init__(seed=seed, shuffle=shuffle)
        self.images, self.form, self.padding, self.rows, self.flip = images, form, padding, rows, flip

    def plan(self, number: int) -> list[Ints]:
        count = len(self.images)
        order = Dice(self.seed, number).order(count) if self.shuffle else np.arange(count)
        return [order[at : at + self.rows] for at in range(0, count, self.rows)]

    def batch(self, rows: Ints, number: int) -> Batch:
        tensors = self.images.tensors(rows, self.form, self.padding)
        if self.flip and self.shuffle:
            turned = torch.tensor([Dice(self.seed, number, row).share() < 0.5 for row in rows.tolist()])
            pixels = tensors["pixel_values"]
            tensors["pixel_values"] = torch.where(turned[:, None, None, None], pixels.flip(3), pixels)
        return Batch(tensors, tuple(rows.tolist()))
