"""Pictures by name: files of a folder, or of a tar archive, which is read in place and never unpacked."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from PIL import Image

from regard.core.errors import DataError
from regard.data.images import open_image

_LARGEST = 1 << 28


@dataclass(frozen=True)
class Pictures:
    """A folder, or a tar archive without compression."""

    place: Path

    def open(self, name: str) -> Image.Image:
        """The picture with this name; the error for a bad one names it."""
        if self.place.is_dir():
            return open_image(self._path(name))
        file = _Named(self._read(name))
        file.name = f"{self.place}:{name}"
        return open_image(file)

    def files(self, names: Iterable[str]) -> list[Path]:
        """The files that these pictures are read from; all of them exist."""
        if self.place.is_dir():
            return [self._path(name) for name in names]
        if not self.place.is_file():
            raise DataError(f"there are no pictures at {self.place}", expected="a folder, or a tar archive")
        return [self.place]

    def _path(self, name: str) -> Path:
        path = self.place / name
        if ".." in Path(name).parts or Path(name).is_absolute():
            raise DataError(f"{name} is outside its folder", got=str(path), remedy="Give names inside it.")
        if not path.is_file():
            raise DataError(f"{self.place} has no picture {name}", remedy="Check data.images and the captions.")
        return path

    def _read(self, name: str) -> bytes:
        if name not in self._members:
            raise DataError(f"{self.place} has no picture {name}", remedy="Check data.images and the captions.")
        start, size = self._members[name]
        if size > _LARGEST:
            name = f"{self.place}:{name}"
            raise DataError(f"{name} is too large to open", got=f"{size:,} bytes", expected=f"at most {_LARGEST:,}")
        with self.place.open("rb") as file:
            file.seek(start)
            return file.read(size)

    @cached_property
    def _members(self) -> dict[str, tuple[int, int]]:
        """Where each picture begins in the archive, and its size."""
        try:
            with tarfile.open(self.place, "r:") as archive:
                return {entry.name: (entry.offset_data, entry.size) for entry in archive if entry.isreg()}
        except (tarfile.TarError, OSError, EOFError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            expected = "a folder, or a tar archive without compression"
            raise DataError(f"{self.place} holds no pictures", got=reason, expected=expected) from None


class _Named(io.BytesIO):
    """Bytes with a name, for errors."""

    name: str
