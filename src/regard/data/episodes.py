"""Episodes of few-shot classification: N classes (ways), K labelled images of each (shots), and images to classify.

An episode (its classes, their labels 0 … N−1, its images and their order) depends only on the seed, the split and its
own number. With `rotations` a class turned by 90°, 180° and 270° gives three more classes (Santoro et al. 2016).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from regard.core.batch import Batch
from regard.core.errors import ConfigError
from regard.data.chance import Dice, Ints
from regard.data.class_images import ClassImages
from regard.data.epochs import Epochs
from regard.data.images import ImageForm, Pixels

SPLITS = ("train", "validation")


class Shape(NamedTuple):
    """N ways, K shots and the number of images to classify."""

    ways: int
    shots: int
    queries: int


class Episodes(Epochs):
    """Batches of `images` [B,N·K+Q,C,H,W], shots first, and their `labels` [B,N·K+Q]; an epoch has `count` episodes.

    Validation (`split`) has the same episodes in each epoch.
    """

    def __init__(
        self,
        source: ClassImages,
        form: ImageForm,
        shape: Shape,
        *,
        count: int,
        rows: int,
        seed: int,
        split: str = "train",
        rotations: bool = False,
    ) -> None:
        super().__init__(seed=seed, shuffle=split == "train")
        self.source, self.form, self.shape, self.count, self.rows = source, form, shape, count, rows
        self.turns, self.stream = 4 if rotations else 1, SPLITS.index(split)
        if len(source) < shape.ways:
            raise ConfigError("there are fewer classes than ways", got=len(source), expected=f"{shape.ways} or more")
        needed = shape.shots + -(-shape.queries // shape.ways)
        few = [name for name, images in zip(source.names, source.examples, strict=True) if len(images) < needed]
        if few:
            raise ConfigError(
                f"class {few[0]} has too few images",
                expected=f"{needed} or more: data.shots and its share of data.queries",
            )

    def plan(self, number: int) -> list[Ints]:
        first = number * self.count if self.shuffle else 0
        return [
            np.arange(first + at, first + min(at + self.rows, self.count)) for at in range(0, self.count, self.rows)
        ]

    def batch(self, rows: Ints, number: int) -> Batch:
        drawn = [self.episode(int(row)) for row in rows]
        images = self.form.tensor(np.stack([images for images, _ in drawn]))
        labels = torch.from_numpy(np.stack([labels for _, labels in drawn]))
        return Batch({"images": images, "labels": labels}, tuple(rows.tolist()))

    def episode(self, number: int) -> tuple[Pixels, Ints]:
        """The images [N·K+Q,C,H,W] and labels of an episode."""
        dice, (ways, shots, queries) = Dice(self.seed, self.stream, number), self.shape
        kinds = dice.order(self.turns * len(self.source))[:ways]
        each = [self._examples(int(kind), shots + -(-queries // ways), dice) for kind in kinds]
        known = dice.order(ways * shots)
        # All classes have the same number of queries, or some have one more; which ones is random.
        asked = np.concatenate([dice.order(ways) for _ in range(-(-queries // ways))])[:queries]
        images = [each[place % ways][place // ways] for place in known.tolist()]
        images += [each[label][shots + turn // ways] for turn, label in enumerate(asked.tolist())]
        return np.stack(images), np.concatenate([known % ways, asked])

    def _examples(self, kind: int, count: int, dice: Dice) -> Pixels:
        turn, number = divmod(kind, len(self.source))
        images = self.source.examples[number]
        return np.rot90(images[dice.order(len(images))[:count]], turn, axes=(2, 3))
