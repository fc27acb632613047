"""Captions of images: several sentences about each image.

    JSON lines       {"image": "1.jpg", "split": "train", "captions": ["A dog runs .", …]}; `split` may be left out
    columns          1.jpg<TAB>A dog runs .        or 1.jpg#0<TAB>…, as Flickr8k has it: one caption per line

Captions are compared as lower-case words without punctuation, as for published scores. By default they are also learnt
in this form.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from torch import Tensor

from regard.core.batch import Batch, pad
from regard.core.errors import DataError
from regard.core.lines import read_lines
from regard.data.chance import Dice, Ints
from regard.data.kept_features import ImageTensors
from regard.data.row_batches import RowBatches
from regard.data.text import Tokenizer

_WORDS = re.compile(r"\w+(?:['’-]\w+)*")


@dataclass(frozen=True)
class Captioned:
    """An image by name, and what people wrote about it."""

    image: str
    captions: tuple[str, ...]


def words_only(caption: str) -> str:
    """Lower-case words, without punctuation: "A tri-colored dog runs ." → "a tri-colored dog runs"."""
    return " ".join(_WORDS.findall(caption.lower()))


def read_captions(path: Path, split: str | None = None) -> list[Captioned]:
    """The images of a file with their captions, in the file's order; of one split, if it is named."""
    every: dict[str, list[str]] = {}
    splits: set[str] = set()
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            continue
        image, texts, part = _entry(line, path, number)
        splits |= {part} if part is not None else set()
        if split is None or part == split:
            every.setdefault(image, []).extend(texts)
    if not every:
        known = f"splits {', '.join(sorted(splits))}" if splits else "no splits"
        raise DataError(f"{path} has no captions of split {split!r}" if split else f"{path} is empty", got=known)
    return [Captioned(image, tuple(texts)) for image, texts in every.items()]


def _entry(line: str, path: Path, number: int) -> tuple[str, list[str], str | None]:
    """Image, captions and split of a line."""
    if not line.startswith("{"):
        image, tab, caption = line.partition("\t")
        if not tab or not caption.strip():
            got = f"{line[:40]!r}"
            raise DataError(f"line {number} of {path} is no caption", got=got, expected="an image, a tab, a caption")
        return image.partition("#")[0], [caption], None
    try:
        entry = json.loads(line)
        image, texts, split = entry["image"], entry["captions"], entry.get("split")
        good = isinstance(image, str) and isinstance(texts, list) and bool(texts)
        good = good and all(isinstance(text, str) for text in texts) and isinstance(split, str | None)
    except (ValueError, KeyError, TypeError, RecursionError):
        good = False
    if not good:
        raise DataError(
            f"line {number} of {path} is no caption",
            got=f"{line[:80]!r}",
            expected='{"image": "1.jpg", "captions": ["…"]}',
            remedy="Put the captions into a list, even a single one; a split is one name.",
        )
    return image, texts, split


class CaptionRows:
    """A row for each caption: `target` bos + ids + eos [B,T] with its mask, and what the model sees of the image."""

    def __init__(self, captioned: Sequence[Captioned], see: Callable[[], ImageTensors], tokenizer: Tokenizer) -> None:
        self.captioned, self._see, self._pad = captioned, see, tokenizer.pad
        texts = [text for entry in captioned for text in entry.captions]
        self.image_of = [place for place, entry in enumerate(captioned) for _ in entry.captions]
        self._ids = [[tokenizer.bos, *row, tokenizer.eos] for row in tokenizer.encode_batch(texts)]
        self.lengths: Ints = np.array([len(row) for row in self._ids], dtype=np.int64)

    @cached_property
    def images(self) -> ImageTensors:
        """What the model sees; features are computed here if they do not exist yet."""
        return self._see()

    def tensors(self, rows: Sequence[int], versions: Sequence[int] | None = None) -> dict[str, Tensor]:
        """`versions` says which of an image's versions each row shows; without it, the image as it is."""
        target, mask = pad([self._ids[row] for row in rows], value=self._pad)
        seen = self.images([self.image_of[row] for row in rows], versions or [0] * len(rows))
        return {**seen, "target": target, "target_mask": mask}


class CaptionBatches(RowBatches):
    """Batches of captions of similar length; in training each shows one of its image's versions."""

    source: CaptionRows

    def batch(self, rows: Ints, number: int) -> Batch:
        numbers, several = rows.tolist(), self.source.images.versions
        versions = None
        if self.shuffle and several > 1:
            versions = [int(Dice(self.seed, number, row).below(several, 1)[0]) for row in numbers]
        return Batch(self.source.tensors(numbers, versions), tuple(numbers))
