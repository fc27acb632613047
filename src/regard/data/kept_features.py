"""Images as a model reads them: features that were computed once and kept, or pixels that are read each time.

    grid      [N,V,P,D] of N images in V versions (as it is; mirrored), P cells of D features, float16, memory-mapped
    pooled    [N,V,D] their means, for models without attention

Half precision changes a feature by less than 1/2000 of itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from regard.core.errors import DataError
from regard.data import arrays
from regard.data.arrays import Array
from regard.data.images import ImageForm

KIND = "regard.features"


class ImageTensors(Protocol):
    """The tensors of some images by number, each in one of its versions."""

    @property
    def versions(self) -> int:
        """How many versions there are: the image as it is, and perhaps mirrored."""
        ...

    def __call__(self, images: Sequence[int], versions: Sequence[int]) -> dict[str, Tensor]: ...


@dataclass(frozen=True)
class KeptFeatures:
    """`features` [B,P,D] of images; with `whole`, their means [B,1,D]."""

    grid: Array
    pooled: Array
    shape: tuple[int, int]
    """Rows and columns of the grid."""
    whole: bool = False

    @property
    def versions(self) -> int:
        return int(self.grid.shape[1])

    def __len__(self) -> int:
        return len(self.grid)

    def __call__(self, images: Sequence[int], versions: Sequence[int]) -> dict[str, Tensor]:
        if self.whole:
            return {"features": torch.from_numpy(self.pooled[list(images), list(versions)].astype(np.float32))[:, None]}
        return {"features": torch.from_numpy(self.grid[list(images), list(versions)].astype(np.float32))}

    def rows(self) -> list[Tensor]:
        """The features of each image as it is [P,D]."""
        return [self([place], [0])["features"][0] for place in range(len(self))]

    @classmethod
    def open(cls, folder: Path, *, whole: bool = False) -> KeptFeatures:
        files, facts = arrays.opened(folder, KIND)
        rows, columns, width, versions = (int(facts[name]) for name in ("rows", "columns", "width", "versions"))
        if min(rows, columns, width, versions) < 1:
            raise DataError(f"{folder} holds no features", got=str(facts), remedy=arrays.REMEDY)
        grid = files["grid"].reshape(-1, versions, rows * columns, width)
        return cls(grid, files["pooled"].reshape(-1, versions, width), (rows, columns), whole)


def keep(folder: Path, parts: Iterable[Tensor], *, grid: tuple[int, int], width: int, versions: int) -> None:
    """Write features [n,V,P,D] that come in parts."""
    facts = {"rows": grid[0], "columns": grid[1], "width": width, "versions": versions}
    with arrays.writing(folder, KIND, {"grid": "<f2", "pooled": "<f4"}, facts) as files:
        for part in parts:
            files["grid"].write(part.numpy())
            files["pooled"].write(part.mean(2).numpy())


class PixelRows:
    """`pixel_values` [B,C,H,W], read from the files each time. Version 1 is mirrored."""

    def __init__(
        self, names: Sequence[str], opened: Callable[[str], Image.Image], form: ImageForm, versions: int = 1
    ) -> None:
        self.names, self.opened, self.form, self.versions = names, opened, form, versions

    def __len__(self) -> int:
        return len(self.names)

    def __call__(self, images: Sequence[int], versions: Sequence[int]) -> dict[str, Tensor]:
        pixels = self.form.pixel_values([self.opened(self.names[image]) for image in images])
        mirrored = torch.tensor([version == 1 for version in versions])[:, None, None, None]
        return {"pixel_values": torch.where(mirrored, pixels.flip(3), pixels) if mirrored.any() else pixels}


class WithBlanks:
    """Images and, as the numbers after theirs, images that are not there: all zeros, of one version."""

    def __init__(self, images: ImageTensors, count: int) -> None:
        self.images, self.count, self.versions = images, count, images.versions

    def __call__(self, images: Sequence[int], versions: Sequence[int]) -> dict[str, Tensor]:
        there = [image < self.count for image in images]
        shown = [
            (image, version) if real else (0, 0) for real, image, version in zip(there, images, versions, strict=True)
        ]
        tensors, real = self.images(*zip(*shown, strict=True)), torch.tensor(there)
        return {name: tensor * real.reshape(-1, *[1] * (tensor.dim() - 1)) for name, tensor in tensors.items()}
