"""A folder with the published weights of an EfficientNet-Lite as `model.safetensors`, without a configuration.

The names of its tensors are those of PyTorch's ports. The number of blocks and the last width determine the size. If
there are a thousand classes, they get ImageNet's names. Images are resized (bicubic) so that their shorter side is 8/7
of the model's, and the middle is cropped, as these models are evaluated.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from regard.core import weights
from regard.core.errors import WeightsError
from regard.core.image_settings import ImageSettings, Resizing
from regard.models import config_of
from regard.models.efficientnet_lite import PUBLISHED_NAMES, SIZES, EfficientnetLiteConfig
from regard.store.sizes import Extent, empty_model
from regard.store.stored_model import StoredModel

_NAME = "efficientnet_lite"
_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_BICUBIC = 3


def recognises(path: Path, config: Mapping[str, Any] | None) -> bool:
    place = path / weights.FILE
    return config is None and place.is_file() and {"_conv_stem.weight", "_fc.weight"} <= _names(place)


def load(path: Path, config: Mapping[str, Any] | None) -> StoredModel:
    place = path / weights.FILE
    theirs = weights.read_tensors(place)
    n_labels = len(theirs["_fc.weight"])
    options = {**_size(theirs, path), "n_labels": n_labels}
    model_config = config_of(_NAME, options, where=str(path))
    model = empty_model(_NAME, model_config, Extent.of(place), str(path))
    ours = PUBLISHED_NAMES.to_ours({name: tensor for name, tensor in theirs.items() if not _counts(name)})
    weights.load_into(model, weights.aligned(ours))
    side = model_config.image_size  # type: ignore[attr-defined]
    how = Resizing(shortest=side * 8 // 7, resample=_BICUBIC, crop=True)
    form = ImageSettings(size=side, mean=_MEAN, std=_STD, resizing=how)
    names = (files("regard.store") / "imagenet_names.txt").read_text(encoding="utf-8").splitlines()
    extra = {"image": form.model_dump(mode="json"), **({"labels": names} if n_labels == len(names) else {})}
    return StoredModel("image_classification", _NAME, model_config, model.eval(), extra=extra)


def _size(theirs: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """The named size with this number of blocks and this width of the last block."""
    count, last = len({name.split(".")[1] for name in theirs if name.startswith("_blocks.")}), 0
    if (head := theirs.get("_conv_head.weight")) is not None and head.ndim == 4:
        last = head.shape[1]
    sizes = {}
    for size in SIZES.values():
        stages = EfficientnetLiteConfig(**size).stages
        sizes[sum(stage[0] for stage in stages), stages[-1][-1]] = size
    if (count, last) not in sizes:
        expected = ", ".join(f"{blocks} with {width}" for blocks, width in sizes)
        got = f"{count} blocks, the last with {last} features"
        raise WeightsError(f"{path} is not a known EfficientNet-Lite", got=got, expected=expected)
    return sizes[count, last]


def _names(place: Path) -> set[str]:
    try:
        with safe_open(place, framework="pt") as stored:
            return set(stored.keys())
    except (SafetensorError, OSError, ValueError):
        return set()


def _counts(name: str) -> bool:
    return name.endswith(".num_batches_tracked")
