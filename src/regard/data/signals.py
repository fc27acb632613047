"""A signal as points and values: a picture (x, y → colours), or a row of numbers (t → value).

    picture    any image file, its middle cut to a square and resized
    numbers    a text file with one number per line, or a WAV file (16 bits, its channels averaged)
    sines      generated: Σ sin 2πft over some frequencies f

Points lie in [0, 1)^d, values in [0, 1]. Training sees every `every`-th point of each axis; the others are held out.
"""

from __future__ import annotations

import math
import wave
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from regard.core.batch import Batch
from regard.core.errors import DataError
from regard.core.lines import read_lines
from regard.data.chance import Dice, Ints
from regard.data.epochs import Epochs
from regard.data.images import as_mode, open_image

Floats = NDArray[np.float32]
_MOST = 1 << 24


@dataclass(frozen=True, eq=False)
class Signal:
    """`values` [*shape,C]; the original numbers were low + (high − low) · value."""

    values: Floats
    low: float = 0.0
    high: float = 1.0

    @property
    def shape(self) -> tuple[int, ...]:
        return self.values.shape[:-1]

    def rows(self, every: int, *, held_out: bool) -> SignalRows:
        """The points for training, or the held-out points."""
        kept = np.zeros(self.shape, dtype=bool)
        kept[tuple(slice(None, None, every) for _ in self.shape)] = True
        chosen = np.flatnonzero(~kept if held_out else kept)
        if not len(chosen):
            raise DataError("no points are held out", got=f"every {every}", expected="2 or more, or no validation")
        return SignalRows(grid_points(self.shape)[chosen], torch.from_numpy(self.values.reshape(kept.size, -1))[chosen])


@dataclass(frozen=True, eq=False)
class SignalRows:
    points: Tensor
    values: Tensor

    def __len__(self) -> int:
        return len(self.points)


def grid_points(shape: Sequence[int]) -> Tensor:
    """The points [N,d] of a grid, row by row."""
    axes = [torch.arange(size, dtype=torch.float32) / size for size in shape]
    return torch.stack(torch.meshgrid(*axes, indexing="ij"), -1).reshape(-1, len(shape))


def picture(path: Path, size: int) -> Signal:
    """The middle of an image as a square of `size` pixels per side."""
    image = as_mode(open_image(path), "RGB")
    side = min(image.size)
    left, top = ((length - side) // 2 for length in image.size)
    square = image.crop((left, top, left + side, top + side)).resize((size, size), Image.Resampling.LANCZOS)
    return Signal((np.asarray(square) / 255).astype(np.float32))


def numbers(path: Path) -> Signal:
    """The numbers of a text file or of a recording."""
    given = _recording(path) if path.suffix.lower() == ".wav" else _lines(path)
    if len(given) < 4 or not np.isfinite(given).all():
        raise DataError(f"{path} holds no signal", got=f"{len(given)} numbers", expected="4 or more finite numbers")
    return _scaled(given)


def sines(frequencies: Sequence[float], size: int) -> Signal:
    """The sum of sines with these frequencies, in cycles over the whole signal."""
    time = np.arange(size) / size
    return _scaled(np.sum([np.sin(2 * math.pi * f * time) for f in frequencies], axis=0))


def _scaled(given: NDArray[np.float64]) -> Signal:
    low, high = float(given.min()), float(given.max())
    reach = high - low or 1.0
    return Signal(((given - low) / reach).astype(np.float32)[:, None], low, low + reach)


def _lines(path: Path) -> NDArray[np.float64]:
    values = []
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            continue
        try:
            values.append(float(line))
        except ValueError:
            got = f"{line[:40]!r}"
            raise DataError(f"line {number} of {path} is no number", got=got, expected="one number per line") from None
        if len(values) > _MOST:
            raise DataError(f"{path} is too long", expected=f"at most {_MOST:,} numbers")
    return np.array(values)


def _recording(path: Path) -> NDArray[np.float64]:
    try:
        with wave.open(str(path), "rb") as file:
            channels, width, frames = file.getnchannels(), file.getsampwidth(), file.getnframes()
            if width != 2 or not 0 < frames * channels <= _MOST:
                got = f"{8 * width} bits, {frames:,} samples"
                raise DataError(f"{path} is not a short recording of 16 bits", got=got)
            samples = np.frombuffer(file.readframes(frames), "<i2")
    except (wave.Error, EOFError, OSError) as error:
        raise DataError(f"{path} is no WAV file", got=error, remedy="Give a recording of 16 bits.") from None
    return samples[: len(samples) // channels * channels].reshape(-1, channels).mean(1)


class SignalBatches(Epochs):
    """Batches of `points` [B,d] and `values` [B,C]."""

    def __init__(self, source: SignalRows, *, rows: int, seed: int, shuffle: bool = True) -> None:
        super().__init__(seed=seed, shuffle=shuffle)
        self.source, self.rows = source, rows

    def plan(self, number: int) -> list[Ints]:
        count = len(self.source)
        order = Dice(self.seed, number).order(count) if self.shuffle else np.arange(count)
        return [order[at : at + self.rows] for at in range(0, count, self.rows)]

    def batch(self, rows: Ints, number: int) -> Batch:
        chosen = torch.from_numpy(rows)
        return Batch({"points": self.source.points[chosen], "values": self.source.values[chosen]}, tuple(rows.tolist()))
