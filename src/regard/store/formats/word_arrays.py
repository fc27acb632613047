"""A folder with word vectors: an array, NAME.npy [N,D], and NAME.words.txt, the words in the same order, one per line.

Arrays of Python objects are refused, since reading them could run code. float16 becomes float32.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from regard.core.errors import DataError
from regard.core.lines import read_lines
from regard.data.text.vectors import WordVectors, check_vectors
from regard.store.stored_model import StoredModel
from regard.store.word_files import as_model


def recognises(path: Path, config: Mapping[str, Any] | None) -> bool:
    return config is None and path.is_dir() and all(len(files) == 1 for files in _files(path))


def load(path: Path, config: Mapping[str, Any] | None) -> StoredModel:
    (array,), (listed,) = _files(path)
    try:
        vectors = np.lib.format.open_memmap(array, mode="r")
    except (OSError, ValueError) as error:
        raise DataError(f"{array} is not an array of numbers", got=error, remedy="Copy or download it again.") from None
    words = list(read_lines(listed))
    if vectors.ndim != 2 or vectors.dtype.kind != "f" or len(words) != len(vectors):
        got = f"{vectors.dtype} {list(vectors.shape)} and {len(words):,} words"
        raise DataError(f"{array} and {listed.name} do not belong together", got=got, expected="a row for each word")
    return as_model(check_vectors(array, WordVectors(words, vectors.astype(np.float32))), "glove", str(path))


def _files(folder: Path) -> tuple[list[Path], list[Path]]:
    return sorted(folder.glob("*.npy")), sorted(folder.glob("*.words.txt"))
