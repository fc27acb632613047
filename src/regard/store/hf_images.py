"""Converts the preprocessor_config.json of a Hugging Face folder to our image settings, and back."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeGuard

from regard.core.config import Config
from regard.core.errors import ConfigError
from regard.core.image_settings import BILINEAR, ImageSettings
from regard.store.hf_files import read_json

_FILE = "preprocessor_config.json"
# Defaults of the processors; DeiT's resizes to 256 and crops to 224.
_DEIT = {"size": 256, "crop_size": 224, "do_center_crop": True, "resample": 3}
_MOST_TIMES = 4
"""The largest allowed ratio of image size to the size that positions were learned for; patches grow with its square."""
_SCALE = 1 / 255


def image_settings(folder: Path, config: Config) -> dict[str, Any]:
    """The image settings from preprocessor_config.json, or the usual ones of published models of this kind."""
    channels = getattr(config, "channels", None)
    if channels is None:
        return {}
    place = folder / _FILE
    settings = read_json(place)
    kind = str(settings.get("image_processor_type") or settings.get("feature_extractor_type") or "")
    if kind.startswith("DeiT"):
        settings = {**_DEIT, **settings}
    learned: int = config.model_dump()["image_size"]
    size, resizing = _resizing(settings, learned, place)
    if size > _MOST_TIMES * learned:
        raise ConfigError(
            f"{place} asks for images that are too large for the model",
            got=f"{size} pixels per side",
            expected=f"at most {_MOST_TIMES * learned}, as the model has positions for {learned}",
        )
    normal = _flag(settings, "do_normalize", True, place)
    mean, std = (_numbers(settings, f"image_{name}", channels, place) for name in ("mean", "std"))
    form: dict[str, Any] = {
        "size": size,
        "channels": channels,
        "mean": mean if normal else [0.0] * channels,
        "std": std if normal else [1.0] * channels,
    }
    if resizing:
        form["resizing"] = resizing
    if (scale := _scale(settings, place)) is not None:
        form["scale"] = scale
    return {"image": ImageSettings.parse(form, str(place)).model_dump(mode="json", exclude_defaults=True)}


def processor_config(image: Mapping[str, Any]) -> dict[str, Any]:
    """Our settings as their preprocessor_config.json."""
    form = ImageSettings.parse(image, "how images are prepared")
    how, square = form.resizing, {"height": form.size, "width": form.size}
    size: dict[str, Any] = square
    if how.shortest is not None:
        size = {"shortest_edge": how.shortest}
    elif how.to is not None:
        size = {"height": how.to[0], "width": how.to[1]}
    return {
        "image_processor_type": "DeiTImageProcessor" if how.crop else "ViTImageProcessor",
        "size": size,
        "do_resize": how.resize,
        "resample": how.resample,
        **({"do_center_crop": True, "crop_size": square} if how.crop else {}),
        "do_rescale": True,
        "rescale_factor": _SCALE if form.scale is None else form.scale,
        "do_normalize": True,
        "image_mean": list(form.mean),
        "image_std": list(form.std),
    }


def _resizing(settings: Mapping[str, Any], learned: int, place: Path) -> tuple[int, dict[str, Any]]:
    """The pixels per side that the model reads, and how an image is resized to it, unless that is the default."""
    how: dict[str, Any] = {}
    if (resample := settings.get("resample")) is not None and resample != BILINEAR:
        if type(resample) is not int or not 0 <= resample <= 5:
            raise _refused(place, "resample", resample, "0 to 5")
        how["resample"] = resample
    target: tuple[int, int] | int = learned
    if _flag(settings, "do_resize", True, place):
        target = _size(settings.get("size", learned), "size", place, shortest=True)
    else:
        how["resize"] = False
    final = target
    if crops := _flag(settings, "do_center_crop", False, place):
        final = _size(settings.get("crop_size", learned), "crop_size", place)
    if isinstance(target, int) and how.get("resize", True):
        how["shortest"] = target
    elif isinstance(target, tuple) and target != final:
        how["to"] = list(target)
    if isinstance(final, tuple) and final[0] != final[1]:
        raise _refused(place, "crop_size" if crops else "size", f"{final[0]} × {final[1]}", "a square")
    side = final if isinstance(final, int) else final[0]
    return side, {**how, **({"crop": True} if crops else {})}


def _size(value: Any, name: str, place: Path, *, shortest: bool = False) -> tuple[int, int] | int:
    """Height and width, or only the shorter side if that is given."""
    if _is_side(value):
        return value, value
    if isinstance(value, (list, tuple)) and len(value) in (1, 2) and all(map(_is_side, value)):
        return value[0], value[-1]
    if isinstance(value, Mapping):
        height, width, edge = (value.get(key) for key in ("height", "width", "shortest_edge"))
        if _is_side(height) and _is_side(width):
            return height, width
        if shortest and _is_side(edge) and value.get("longest_edge") is None:
            return edge
    kinds = "pixels, as a number or as height and width" + (" or shortest_edge" if shortest else "")
    raise _refused(place, name, value, kinds)


def _is_side(value: Any) -> TypeGuard[int]:
    return type(value) is int and value > 0


def _flag(settings: Mapping[str, Any], name: str, default: bool, place: Path) -> bool:
    value = settings.get(name)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise _refused(place, name, value, "true or false")
    return value


def _numbers(settings: Mapping[str, Any], name: str, channels: int, place: Path) -> list[float]:
    value = settings.get(name)
    if value is None:
        return [0.5] * channels
    several = value if isinstance(value, list) else [value] * channels
    good = all(type(number) in (int, float) and math.isfinite(number) for number in several)
    if not good or len(several) != channels or (name == "image_std" and min(several) <= 0):
        positive = " above 0" if name == "image_std" else ""
        raise _refused(place, name, value, f"{channels} numbers{positive}")
    return [float(number) for number in several]


def _scale(settings: Mapping[str, Any], place: Path) -> float | None:
    if not _flag(settings, "do_rescale", True, place):
        return 1.0
    factor = settings.get("rescale_factor", _SCALE)
    if type(factor) not in (int, float) or not math.isfinite(factor):
        raise _refused(place, "rescale_factor", factor, "a number")
    return None if math.isclose(factor, _SCALE, rel_tol=1e-6) else float(factor)


def _refused(place: Path, name: str, got: Any, expected: str) -> ConfigError:
    return ConfigError(f"{place}: {name} is not supported", got=repr(got)[:80], expected=expected)
