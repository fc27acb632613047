"""Images by class, for few-shot learning: from an array file, or from a folder with one subfolder per class.

An array file (.npz) holds `images` [classes, examples, height, width] or [… , height, width, 3] of bytes, `class_name`
[classes], and may hold `split` [classes], such as meta_train or meta_test. Only plain numbers and text are read, by
their headers: an array of Python objects could run code, and sizes are checked before anything is allocated.
"""

from __future__ import annotations

import io
import tokenize
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.core.errors import DataError, UnknownName
from regard.core.image_settings import Resizing
from regard.data.chance import Dice
from regard.data.image_files import ImageFolder
from regard.data.images import Pixels, prepared

BOX = Resizing(resample=4)
"""Each pixel becomes the mean of the area that it covers: thin lines grow faint, but do not vanish."""
_MOST_BYTES = 1 << 30
_LONGEST_NAME = 1000
_LONGEST_HEADER = 10_000


@dataclass(frozen=True, eq=False)
class ClassImages:
    """`examples[c]` are the images of class c [n,C,size,size], `names[c]` is its name."""

    names: tuple[str, ...]
    examples: Sequence[Pixels]

    def __len__(self) -> int:
        return len(self.names)

    def split(self, count: int, dice: Dice) -> tuple[ClassImages, ClassImages]:
        """Split off `count` random classes: return the other classes, then these."""
        if not 0 < count < len(self):
            expected = f"fewer than the {len(self)} classes"
            raise DataError("too many classes are held out", got=count, expected=expected)
        order = dice.order(len(self))
        return self._only(np.sort(order[count:])), self._only(np.sort(order[:count]))

    def _only(self, classes: Any) -> ClassImages:
        return ClassImages(tuple(self.names[c] for c in classes), [self.examples[c] for c in classes])


def with_bright_ink(pixels: Pixels) -> Pixels:
    """The negative of an image that is mostly bright, so that drawings have bright lines on black."""
    return 255 - pixels if pixels.mean() > 127.5 else pixels


def read_folder(folder: Path, *, size: int, channels: int, invert: bool) -> ClassImages:
    """The images of a folder with one subfolder per class, resized."""
    source = ImageFolder(folder)
    names = tuple(source.classes())
    rows: list[list[Pixels]] = [[] for _ in names]
    for image, number in source.images():
        pixels = prepared(image, size, channels, BOX)
        rows[number].append(with_bright_ink(pixels) if invert else pixels)
    return ClassImages(names, [np.stack(row) for row in rows])


def read_arrays(path: Path, split: str | None, *, channels: int, invert: bool) -> ClassImages:
    """The classes of an array file, or those of one split."""
    try:
        with zipfile.ZipFile(path) as archive:
            images, names = _array(archive, "images", path), _array(archive, "class_name", path)
            splits = _array(archive, "split", path) if split is not None else None
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError, NotImplementedError, RuntimeError) as error:
        raise DataError(f"{path} is no array file", got=error, expected="an .npz file") from None
    _check(path, images, names, splits)
    chosen = np.arange(len(names)) if splits is None else np.flatnonzero(splits == split)
    if splits is not None and not len(chosen):
        raise UnknownName(f"split of {path}", split, {str(name) for name in splits})
    whole = images[chosen] if images.ndim == 5 else images[chosen][..., None]
    if whole.shape[-1] != channels:
        raise DataError(f"{path} has images of other colours", got=f"{whole.shape[-1]} channels", expected=channels)
    rows = np.ascontiguousarray(whole.transpose(0, 1, 4, 2, 3))
    examples = [np.stack([with_bright_ink(image) for image in row]) for row in rows] if invert else list(rows)
    return ClassImages(tuple(str(names[c]) for c in chosen), examples)


def _check(path: Path, images: NDArray[Any], names: NDArray[Any], splits: NDArray[Any] | None) -> None:
    square = images.ndim in (4, 5) and images.shape[2] == images.shape[3]
    if images.dtype != np.uint8 or not square or not images.size:
        got = f"{images.dtype} {list(images.shape)}"
        raise DataError(f"{path}: images are not of the form of a few-shot file", got=got,
                        expected="bytes [classes, examples, size, size]")  # fmt: skip
    for listed in (names, splits):
        if listed is not None and (listed.dtype.kind != "U" or listed.shape != (len(images),)):
            got = f"{listed.dtype} {list(listed.shape)}"
            raise DataError(f"{path}: names do not fit the images", got=got, expected=f"{len(images)} texts")


def _array(archive: zipfile.ZipFile, name: str, path: Path) -> NDArray[Any]:
    """An array of bytes or of text."""
    if f"{name}.npy" not in archive.namelist():
        raise DataError(f"{path} has no array {name!r}", got=", ".join(archive.namelist()[:6]))
    with archive.open(f"{name}.npy") as file:
        try:
            version = np.lib.format.read_magic(file)
            begin = file.read(4 if version == (2, 0) else 2)
            if (length := int.from_bytes(begin, "little")) > _LONGEST_HEADER:
                raise ValueError(f"a header of {length:,} bytes")
            header = io.BytesIO(begin + file.read(length))
            read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
            shape, by_column, dtype = read(header)
        except (ValueError, KeyError, SyntaxError, tokenize.TokenError) as error:
            raise DataError(f"{path}: {name} is no array", got=str(error)[:80]) from None
        text = dtype.kind == "U" and dtype.itemsize <= 4 * _LONGEST_NAME
        size = dtype.itemsize * int(np.prod([int(side) for side in shape], dtype=object))
        if by_column or not (text or dtype == np.uint8) or size > _MOST_BYTES:
            got = f"{dtype} {list(shape)}"
            raise DataError(f"{path}: {name} cannot be read", got=got, expected="bytes or text, at most 1 GB")
        data = file.read(size)
    if len(data) != size:
        raise DataError(f"{path}: {name} is cut short", got=f"{len(data):,} bytes", expected=f"{size:,}")
    return np.frombuffer(data, dtype).reshape(shape)
