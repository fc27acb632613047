"""Images as the numbers that a model reads.

Whatever the file holds, an image becomes `size` × `size` pixels of `channels` colours: transparency is laid on white,
grey and colour are turned into each other, and other shapes are stretched (bilinear, as the published models of this
kind are fed). Pixels are kept as bytes; a model sees (pixel / 255 − mean) / std for each colour.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError
from torch import Tensor

from regard.core.config import Config
from regard.core.errors import DataError

Pixels = NDArray[np.uint8]


class ImageForm(Config):
    """How images are prepared; stored with the model as `extra["image"]`."""

    size: int
    channels: Literal[1, 3] = 3
    mean: tuple[float, ...]
    std: tuple[float, ...]

    def tensor(self, pixels_BCHW: Pixels) -> Tensor:
        """What the model reads of pixels [B,C,H,W]."""
        mean, std = (torch.tensor(values).view(-1, 1, 1) for values in (self.mean, self.std))
        return (torch.from_numpy(pixels_BCHW).float() / 255 - mean) / std

    def pixel_values(self, images: Sequence[str | Path | Image.Image]) -> Tensor:
        """`pixel_values` [B,C,H,W] of files or of images that are open already."""
        opened = [image if isinstance(image, Image.Image) else open_image(image) for image in images]
        return self.tensor(np.stack([prepared(image, self.size, self.channels) for image in opened]))


def open_image(path: str | Path | IO[bytes]) -> Image.Image:
    """The image in a file, read whole; a file that is no image is named."""
    name = path if isinstance(path, (str, Path)) else "the image"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(path) as image:
                image.load()
                return image.copy() if image.mode != "P" else image.convert("RGBA")
    except UnidentifiedImageError:
        raise DataError(f"{name} is no image", expected="PNG, JPEG or the like", remedy="Give an image file.") from None
    except (Image.DecompressionBombWarning, Image.DecompressionBombError) as error:
        raise DataError(f"{name} is too large to open", got=str(error), remedy="Make it smaller first.") from None
    except (OSError, SyntaxError, ValueError, EOFError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DataError(f"{name} cannot be read as an image", got=reason, remedy="Give a sound image file.") from None


def prepared(image: Image.Image, size: int, channels: int) -> Pixels:
    """Pixels [C,size,size]."""
    if image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info:
        over = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", over.size, "white"), over)
    elif image.mode.startswith(("I", "F")):  # 16 bits and more a pixel, which a plain conversion would cut off
        wide = np.asarray(image, dtype=np.float64)
        top = max(float(wide.max(initial=0)), 1.0)
        image = Image.fromarray((wide * 255 / (65535 if top > 255 else 255)).clip(0, 255).astype(np.uint8))
    image = image.convert("L" if channels == 1 else "RGB")
    if image.size != (size, size):
        image = image.resize((size, size), Image.Resampling.BILINEAR)
    pixels: Any = np.asarray(image, dtype=np.uint8)
    return pixels[None] if channels == 1 else np.ascontiguousarray(pixels.transpose(2, 0, 1))
