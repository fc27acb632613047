"""Files by name: in a folder, in a zip archive, or in a tar archive without compression.

Archives are read in place and never unpacked. The size of a file is checked before it is read; a compressed file may
be larger than its archive says, so no more than that size is read of it.
"""

from __future__ import annotations

import tarfile
import zipfile
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from regard.core.errors import DataError
from regard.core.lines import read_whole

_LARGEST = 1 << 28
_EXPECTED = "a folder, a zip archive, or a tar archive without compression"


@dataclass(frozen=True)
class Archive:
    """`what` and `remedy` are for error messages: what the files are, and where their names come from."""

    place: Path
    what: str = "file"
    remedy: str = "Check its name."

    @property
    def is_folder(self) -> bool:
        return self.place.is_dir()

    def read(self, name: str) -> bytes:
        """All bytes of a file."""
        if self.is_folder:
            return read_whole(self.path(name), _LARGEST)
        if name not in self._members:
            raise self._missing(name)
        start, size = self._members[name]
        if size > _LARGEST:
            got, expected = f"{size:,} bytes", f"at most {_LARGEST:,}"
            raise DataError(f"{self.place}:{name} is too large to open", got=got, expected=expected)
        if self._zip is not None:
            return self._unzipped(self._zip, name, size)
        with self.place.open("rb") as file:
            file.seek(start)
            return file.read(size)

    def path(self, name: str) -> Path:
        """The path of a file in a folder; it is inside the folder, and exists."""
        path = self.place / name
        if ".." in Path(name).parts or Path(name).is_absolute():
            raise DataError(f"{name} is outside its folder", got=str(path), remedy="Give names inside it.")
        if not path.is_file():
            raise self._missing(name)
        return path

    def files(self, names: Iterable[str]) -> list[Path]:
        """The files on disk from which these names are read; raises an error if one is missing."""
        if self.is_folder:
            return [self.path(name) for name in names]
        if not self.place.is_file():
            raise DataError(f"there are no {self.what}s at {self.place}", expected=_EXPECTED)
        return [self.place]

    def _missing(self, name: str) -> DataError:
        return DataError(f"{self.place} has no {self.what} {name}", remedy=self.remedy)

    def _unzipped(self, archive: zipfile.ZipFile, name: str, size: int) -> bytes:
        try:
            with archive.open(name) as file:
                return file.read(size)
        except (zipfile.BadZipFile, zlib.error, OSError, EOFError, RuntimeError, NotImplementedError) as error:
            remedy = "Copy it again, without a password."
            raise DataError(f"{self.place}:{name} cannot be read", got=error, remedy=remedy) from None

    @cached_property
    def _zip(self) -> zipfile.ZipFile | None:
        """The archive, if it is a zip; it stays open, since its list of files takes long to read."""
        try:
            return zipfile.ZipFile(self.place) if zipfile.is_zipfile(self.place) else None
        except (zipfile.BadZipFile, OSError, EOFError, ValueError) as error:
            raise self._unreadable(error) from None

    @cached_property
    def _members(self) -> dict[str, tuple[int, int]]:
        """Where each file begins in the archive (0 in a zip, which finds it by name), and its size."""
        if self._zip is not None:
            return {entry.filename: (0, entry.file_size) for entry in self._zip.infolist() if not entry.is_dir()}
        try:
            with tarfile.open(self.place, "r:") as archive:
                return {entry.name: (entry.offset_data, entry.size) for entry in archive if entry.isreg()}
        except (tarfile.TarError, OSError, EOFError, ValueError) as error:
            raise self._unreadable(error) from None

    def _unreadable(self, error: Exception) -> DataError:
        reason = getattr(error, "strerror", None) or error
        return DataError(f"{self.place} holds no {self.what}s", got=reason, expected=_EXPECTED)
