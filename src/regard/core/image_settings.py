"""How images are prepared for a model: plain data, stored with the model as `extra["image"]`."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from regard.core.config import Config

_LARGEST = 4096
BILINEAR = 2
Side = Annotated[int, Field(gt=0, le=_LARGEST)]


class Resizing(Config):
    """How an image becomes `size` × `size` pixels. By default it is stretched to that size.

    The image is resized to `to` (height, width), or so that its shorter side has `shortest` pixels, or not at all
    (`resize` false). Then `crop` takes the middle, padded with black where the image is smaller.
    """

    resize: bool = True
    to: tuple[Side, Side] | None = None
    shortest: Side | None = None
    resample: Annotated[int, Field(ge=0, le=5)] = BILINEAR
    """Pillow's number of the filter: 0 nearest, 1 Lanczos, 2 bilinear, 3 bicubic, 4 box, 5 Hamming."""
    crop: bool = False


class ImageSettings(Config):
    """Pixels per side, colours, and how each pixel value is transformed: (value · scale − mean) / std."""

    size: Side
    channels: Literal[1, 3] = 3
    mean: tuple[float, ...]
    std: tuple[Annotated[float, Field(gt=0)], ...]
    resizing: Resizing = Resizing()
    scale: float | None = None
    """The factor for pixel values from 0 to 255; None means 1/255."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if len(self.mean) != self.channels or len(self.std) != self.channels:
            raise ValueError(f"mean and std need {self.channels} numbers each, one for each channel")
        return self
