"""Sources of labelled images: IDX files (MNIST), one large picture of tiles (CIFAR subsets), folders of files.

Each source knows its classes and the shape of its images, and yields images with their class numbers, one at a time.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from PIL import Image

from regard.core.errors import DataError
from regard.core.lines import open_bytes, read_whole
from regard.data.images import as_mode, open_image

Labelled = tuple[Image.Image, int]


class ImageSource(Protocol):
    def form(self) -> tuple[int, int] | None:
        """Channels and size, if all images have the same."""
        ...

    def classes(self) -> list[str]:
        """The class names, by number."""
        ...

    def images(self) -> Iterator[Labelled]: ...
    def paths(self) -> list[Path]: ...


@dataclass(frozen=True)
class IdxFiles:
    """Two files, as on MNIST's page: images and labels."""

    image_file: Path
    label_file: Path

    def form(self) -> tuple[int, int]:
        _, height, width = self._shape()
        return 1, max(height, width)

    def classes(self) -> list[str]:
        return [str(number) for number in range(int(self._labels().max(initial=0)) + 1)]

    def images(self) -> Iterator[Labelled]:
        count, height, width = self._shape()
        labels = self._labels()
        if len(labels) != count:
            got = f"{count} images in {self.image_file}, {len(labels)} labels in {self.label_file}"
            raise DataError("images and labels differ in number", got=got, expected="one label for each image")
        with open_bytes(self.image_file) as file:
            file.read(16)
            for label in labels.tolist():
                pixels = file.read(height * width)
                if len(pixels) < height * width:
                    raise DataError(f"{self.image_file} is cut short", remedy="Copy or download it again.")
                yield Image.fromarray(np.frombuffer(pixels, np.uint8).reshape(height, width)), label

    def paths(self) -> list[Path]:
        return [self.image_file, self.label_file]

    def _shape(self) -> tuple[int, int, int]:
        with open_bytes(self.image_file) as file:
            magic, count, height, width = _header(file.read(16), 4, self.image_file)
        if magic != 0x803 or not min(height, width):
            raise DataError(f"{self.image_file} holds no IDX images", got=f"magic {magic:#x}", expected="0x803")
        return count, height, width

    def _labels(self) -> np.ndarray:
        with open_bytes(self.label_file) as file:
            magic, count = _header(file.read(8), 2, self.label_file)
            labels = np.frombuffer(file.read(count + 1), np.uint8)
        if magic != 0x801 or len(labels) != count:
            got = f"magic {magic:#x}, {len(labels)} of {count} labels"
            raise DataError(f"{self.label_file} holds no IDX labels, or is cut short", got=got, expected="0x801")
        return labels


def _header(data: bytes, numbers: int, path: Path) -> tuple[int, ...]:
    if len(data) < 4 * numbers:
        raise DataError(f"{path} is not an IDX file", got=f"{len(data)} bytes", remedy="Give MNIST's own files.")
    return struct.unpack(f">{numbers}I", data)


@dataclass(frozen=True)
class Sprite:
    """One picture made of square tiles, row by row, and JSON with {"names": […], KEY: [class of each tile, …]}."""

    picture: Path
    tile: int
    label_file: Path
    key: str

    def form(self) -> tuple[int, int]:
        return 3, self.tile

    def classes(self) -> list[str]:
        known = self._json()
        names = known.get("names") or range(max(known[self.key], default=-1) + 1)
        return [str(name) for name in names]

    def images(self) -> Iterator[Labelled]:
        picture, labels, tile = as_mode(open_image(self.picture), "RGB"), self._json()[self.key], self.tile
        across, down = picture.width // tile, picture.height // tile
        if across * down < len(labels):
            got = f"room for {across * down} tiles of {tile} pixels, {len(labels)} labels"
            raise DataError(
                f"{self.picture} does not fit {self.label_file}", got=got, remedy="Check data's tile and key."
            )
        for number, label in enumerate(labels):
            left, top = number % across * tile, number // across * tile
            yield picture.crop((left, top, left + tile, top + tile)), label

    def paths(self) -> list[Path]:
        return [self.picture, self.label_file]

    def _json(self) -> dict[str, Any]:
        try:
            known = json.loads(read_whole(self.label_file))
            good = all(type(label) is int and label >= 0 for label in known[self.key])
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            good, got = False, repr(error)
        else:
            got = "labels that are not numbers"
        if not good:
            raise DataError(f"{self.label_file} has no labels {self.key!r}", got=got, expected="a list of numbers")
        return dict(known)


@dataclass(frozen=True)
class ImageFolder:
    """One subfolder per class, with the class's name; files whose names begin with a dot are skipped."""

    folder: Path

    def form(self) -> None:
        return None

    def classes(self) -> list[str]:
        if not self.folder.is_dir():
            raise DataError(f"{self.folder} is not a folder", remedy="Give a folder with one subfolder per class.")
        names = sorted(path.name for path in self.folder.iterdir() if path.is_dir() and not path.name.startswith("."))
        if not names:
            raise DataError(f"{self.folder} has no subfolders", expected="one for each class, with images in it")
        return names

    def images(self) -> Iterator[Labelled]:
        for number, name in enumerate(self.classes()):
            files = self.files_of(name)
            if not files:
                raise DataError(f"{self.folder / name} holds no images", remedy="Add some, or remove the folder.")
            for path in files:
                yield open_image(path), number

    def paths(self) -> list[Path]:
        return [path for name in self.classes() for path in self.files_of(name)]

    def files_of(self, name: str) -> list[Path]:
        """The files of a class."""
        return sorted(path for path in (self.folder / name).iterdir() if path.is_file() and path.name[0] != ".")
