"""Pictures by name: files of a folder, or of a zip or tar archive, which is read in place and never unpacked."""

from __future__ import annotations

import io
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from PIL import Image

from regard.data.archives import Archive
from regard.data.images import open_image


@dataclass(frozen=True)
class Pictures:
    """A folder, a zip archive, or a tar archive without compression."""

    place: Path
    remedy: str = "Check data.images and the captions."

    def open(self, name: str) -> Image.Image:
        """The picture with this name; the error for a bad one names it."""
        if self.place.is_dir():
            return open_image(self._archive.path(name))
        file = _Named(self._archive.read(name))
        file.name = f"{self.place}:{name}"
        return open_image(file)

    def files(self, names: Iterable[str]) -> list[Path]:
        """The files that these pictures are read from; all of them exist."""
        return self._archive.files(names)

    @cached_property
    def _archive(self) -> Archive:
        return Archive(self.place, "picture", self.remedy)


class _Named(io.BytesIO):
    """Bytes with a name, for errors."""

    name: str
