"""Draws the signal that a coordinate network has learnt, at any resolution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from regard.core.errors import ConfigError, UsageError
from regard.data.signals import grid_points
from regard.pipelines._loaded import Loaded
from regard.pipelines._verbs import verb

_ROWS = 1 << 14
_MOST = 50_000_000


class CoordinatesPipeline(Loaded):
    usage = "regard draw FOLDER --out picture.png"
    accepts = ()

    @classmethod
    def usage_of(cls, extra: Mapping[str, Any]) -> str:
        sizes = extra.get("shape")
        is_signal = isinstance(sizes, list) and len(sizes) == 1
        return "regard draw FOLDER --out numbers.txt" if is_signal else cls.usage

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the signal that it was trained on."""
        said = self.stored.extra.get("shape")
        sizes = said if isinstance(said, list) else []
        if len(sizes) != self.config.d_input or not all(type(size) is int and size > 0 for size in sizes):
            raise ConfigError("the folder does not say how large its signal is", got=repr(said)[:80])
        return tuple(sizes)

    @verb("a coordinate network")
    def draw(self, size: int | None = None) -> Any:
        """A picture (a `PIL.Image`) of `size` pixels per side, or the numbers of `size` points as a list."""
        shape = self.shape if size is None else (size,) * len(self.shape)
        values = self.values(shape)
        if len(shape) == 2 and values.shape[-1] == 3:
            return Image.fromarray((255 * values).round().astype(np.uint8))
        low, high = (float(self.stored.extra.get(name, default)) for name, default in (("low", 0.0), ("high", 1.0)))
        return (low + (high - low) * values.astype(np.float64))[..., 0].tolist()

    def values(self, shape: Sequence[int]) -> NDArray[np.float32]:
        """The network's values [*shape,C], from 0 to 1, on a grid of points."""
        if min(shape) < 1 or (count := int(np.prod([int(size) for size in shape]))) > _MOST:
            got, expected = " × ".join(map(str, shape)), f"1 to {_MOST:,} points"
            raise UsageError("this size cannot be drawn", got=got, expected=expected)
        points = grid_points(shape)
        with torch.inference_mode():
            parts = [self.model(points[at : at + _ROWS]).logits.float() for at in range(0, count, _ROWS)]
        made: NDArray[np.float32] = torch.cat(parts).reshape(*shape, -1).numpy()
        return made
