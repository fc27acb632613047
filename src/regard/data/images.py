"""Images as model inputs.

Every image becomes `size` × `size` pixels of `channels` colours: it is rotated by its EXIF data, transparency is put on
white, grey and colour are converted, and other sizes are stretched (bilinear, as published models of this kind expect),
or resized and cropped as the model's folder says (`Resizing`). Pixels are kept as bytes; the model gets
(pixel / 255 − mean) / std for each colour.

Image files may be hostile: only six formats are opened (Pillow would pass EPS to Ghostscript), and the size in a file's
header is checked before any pixel is decoded.
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

from regard.core.errors import DataError
from regard.core.image_settings import ImageSettings, Resizing

Pixels = NDArray[np.uint8]
FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF")
MOST_PIXELS, LONGEST_SIDE = 50_000_000, 65_535
_ORIENTATION = 0x0112
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_EIGHT_BITS = (np.arange(1 << 16) * 255 // 65535).astype(np.uint8)


class ImageForm(ImageSettings):
    """How images are prepared; stored with the model as `extra["image"]`."""

    def tensor(self, pixels_BCHW: Pixels) -> Tensor:
        """Convert pixels [B,C,H,W] to the model's input."""
        mean, std = (torch.tensor(values).view(-1, 1, 1) for values in (self.mean, self.std))
        pixels = torch.from_numpy(pixels_BCHW)
        scaled = pixels.float() / 255 if self.scale is None else (pixels.double() * self.scale).float()
        return (scaled - mean) / std

    def pictures(self, pixel_values: Tensor) -> list[Pixels]:
        """Images [H,W,3] that show what the model reads: `tensor`, the other way round."""
        mean, std = (torch.tensor(values).view(-1, 1, 1) for values in (self.mean, self.std))
        scale = 255.0 if self.scale is None else 1 / self.scale
        shown = ((pixel_values * std + mean) * scale).round().clamp(0, 255).to(torch.uint8)
        coloured = shown.expand(-1, 3, -1, -1) if shown.shape[1] == 1 else shown
        return [image.permute(1, 2, 0).numpy() for image in coloured]

    def pixel_values(self, images: Sequence[str | Path | Image.Image]) -> Tensor:
        """`pixel_values` [B,C,H,W] of image files or open images."""
        opened = [upright(image) if isinstance(image, Image.Image) else open_image(image) for image in images]
        return self.tensor(np.stack([prepared(image, self.size, self.channels, self.resizing) for image in opened]))


def open_image(path: str | Path | IO[bytes]) -> Image.Image:
    """Read the image in a file, upright; the error for a bad file names it."""
    name = path if isinstance(path, (str, Path)) else getattr(path, "name", "the image")
    if name == "":
        raise DataError("the name of an image is empty", remedy="Give an image file.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about odd metadata, which is not used
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(path, formats=FORMATS) as image:
                _check_size(image, str(name))
                image.load()
                opened = upright(image.copy() if image.mode != "P" else image.convert("RGBA"))
                opened.__dict__["filename"] = str(name)  # as Pillow's own images have it, for later errors
                return opened
    except UnidentifiedImageError:
        expected = f"one of {', '.join(FORMATS)}"
        raise DataError(f"{name} is not an image", expected=expected, remedy="Give an image file.") from None
    except (Image.DecompressionBombWarning, Image.DecompressionBombError) as error:
        raise DataError(f"{name} is too large to open", got=str(error), remedy="Make it smaller first.") from None
    except DataError:
        raise
    except (FileNotFoundError, NotADirectoryError):
        raise DataError(f"{name} does not exist", expected="an image file", remedy="Check the path.") from None
    except IsADirectoryError:
        raise DataError(f"{name} is a folder", expected="an image file", remedy="Check the path.") from None
    except PermissionError:
        raise DataError(f"{name} may not be read", remedy="Check its permissions, or give another path.") from None
    except MemoryError:
        raise DataError(f"{name} is too large to open", remedy="Make it smaller first.") from None
    except Exception as error:  # damaged files make Pillow raise anything: struct.error, KeyError, IndexError …
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise DataError(f"{name} cannot be read as an image", got=reason, remedy="Give an intact image.") from None


def upright(image: Image.Image) -> Image.Image:
    """Rotate the image by its EXIF data, which cameras write when they are held sideways."""
    try:
        turn = _TURNS.get(image.getexif().get(_ORIENTATION, 1))
    except Exception:  # damaged EXIF data are ignored; the image itself may be intact
        return image
    return image if turn is None else image.transpose(turn)


def prepared(image: Image.Image, size: int, channels: int, resizing: Resizing | None = None) -> Pixels:
    """Pixels [C,size,size]."""
    name = _name(image)
    image = as_mode(image, "L" if channels == 1 else "RGB")
    image = _resized(image, size, resizing or Resizing(), name)
    if image.size != (size, size):
        raise DataError(
            f"{name} does not have the size that this model reads",
            got=f"{image.width} × {image.height} pixels",
            expected=f"{size} × {size}",
            remedy="The model's folder says that images are not resized: resize them first.",
        )
    pixels: Any = np.asarray(image, dtype=np.uint8)
    return pixels[None] if channels == 1 else np.ascontiguousarray(pixels.transpose(2, 0, 1))


def _check_size(image: Image.Image, name: str) -> None:
    """Refuse an image by its header, before it is decoded."""
    width, height = image.size
    if width * height > MOST_PIXELS or max(width, height) > LONGEST_SIDE:
        raise DataError(
            f"{name} is too large to open",
            got=f"{width} × {height} pixels",
            expected=f"at most {MOST_PIXELS:,} pixels, {LONGEST_SIDE:,} per side",
            remedy="Make it smaller first.",
        )


def as_mode(image: Image.Image, mode: Literal["L", "RGB"]) -> Image.Image:
    """The image in grey or in colours; what is transparent becomes white."""
    name = _name(image)
    if image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info:
        over = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", over.size, "white"), over)
    elif image.mode.startswith("I"):  # 16 bits a pixel, which a plain conversion would cut off
        image = Image.fromarray(_EIGHT_BITS[np.asarray(image).clip(0, 65535).astype(np.uint16)])
    elif image.mode.startswith("F"):  # floats, whose range is not given
        wide = np.nan_to_num(np.asarray(image, dtype=np.float32), posinf=0, neginf=0)
        top = 65535 if wide.max(initial=0) > 255 else 255
        image = Image.fromarray((wide * (255 / top)).clip(0, 255).astype(np.uint8))
    try:
        return image.convert(mode)
    except ValueError as error:
        raise DataError(f"{name} has colours that cannot be read", got=f"mode {image.mode}: {error}") from None


def _name(image: Image.Image) -> str:
    """The image's file, for errors."""
    return str(getattr(image, "filename", "")) or "an image"


def _resized(image: Image.Image, size: int, how: Resizing, name: str) -> Image.Image:
    """Resize and crop exactly as the processors of transformers do."""
    if how.resize:
        height, width = how.to or (size, size)
        if how.shortest is not None:
            short, long = sorted(image.size)
            longer = int(how.shortest * long / short)
            if longer * how.shortest > MOST_PIXELS:
                got = f"{image.width} × {image.height} pixels"
                raise DataError(f"{name} is too narrow to be resized", got=got, remedy="Crop it first.")
            height, width = (longer, how.shortest) if image.width <= image.height else (how.shortest, longer)
        if image.size != (width, height):
            image = image.resize((width, height), Image.Resampling(how.resample))
    if not how.crop or image.size == (size, size):
        return image
    # Padding before a smaller image is rounded up; cropping before a larger image is rounded down.
    left, top = ((side - size) // 2 for side in image.size)
    return image.crop((left, top, left + size, top + size))
