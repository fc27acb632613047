"""Features of images, computed once by a frozen encoder and kept for every later run.

They are in the user's cache folder ($REGARD_CACHE, else ~/.cache/regard) under the SHA-256 sum of all that they depend
on: the encoder's configuration and weights, how images are prepared, the pictures' names and files, and the versions.
So another run, an evaluation or another model with the same encoder reuses them; nothing stale is ever read.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.core import manifest
from regard.core.native import cache_folder
from regard.data import arrays, kept_features
from regard.data.images import ImageForm
from regard.data.kept_features import KeptFeatures, keep
from regard.data.pictures import Pictures
from regard.runs.setup import Say

_TOGETHER = 16
_HEAD = ("n_labels", "dropout")  # what features do not depend on
_TELL_AFTER = 30.0  # seconds between lines about progress


def features_of(
    pictures: Pictures, names: Sequence[str], encoder: Any, form: ImageForm, *, mirrored: bool, whole: bool, say: Say
) -> KeptFeatures:
    """The kept features of these pictures; they are computed if they do not exist yet."""
    place = cache_folder() / "features" / key_of(pictures, names, encoder, form, mirrored=mirrored)
    if not arrays.holds(place, kept_features.KIND):
        started = time.monotonic()
        grid = encoder.grid_of(form.size, form.size)
        parts = _computed(pictures, names, encoder, form, mirrored, say)
        keep(place, parts, grid=grid, width=encoder.d_model, versions=1 + mirrored)
        say(f"features of {len(names):,} images: {time.monotonic() - started:.0f} s, kept in {place}")
    return KeptFeatures.open(place, whole=whole)


def key_of(pictures: Pictures, names: Sequence[str], encoder: Any, form: ImageForm, *, mirrored: bool) -> str:
    """The SHA-256 sum of all that features depend on."""
    facts = {
        "encoder": type(encoder).__name__,
        "config": encoder.config.model_dump(mode="json", exclude=set(_HEAD)),
        "weights": weights_digest(encoder),
        "form": form.model_dump(mode="json"),
        "names": list(names),
        "files": [manifest.digest(path) for path in pictures.files(names)],
        "mirrored": mirrored,
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def weights_digest(module: nn.Module) -> str:
    """The SHA-256 sum of an encoder's tensors, with their names; those of its classifier do not matter."""
    total = hashlib.sha256()
    for name, tensor in sorted(module.state_dict().items()):
        if name.startswith("classifier."):
            continue
        total.update(f"{name} {tensor.dtype} {list(tensor.shape)}".encode())
        total.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return total.hexdigest()


def _computed(
    pictures: Pictures, names: Sequence[str], encoder: Any, form: ImageForm, mirrored: bool, say: Say
) -> Iterator[Tensor]:
    """Yield the features [n,V,P,D] of the pictures, some pictures at a time."""
    encoder.eval()
    done, told, waiting = 0, time.monotonic(), iter(names)
    while some := list(islice(waiting, _TOGETHER)):
        # On CPUs convolutions are faster with the channels innermost.
        pixels = form.pixel_values([pictures.open(name) for name in some]).contiguous(memory_format=torch.channels_last)
        with torch.inference_mode():
            seen = [encoder.grid(pixels), *([encoder.grid(pixels.flip(3))] if mirrored else [])]
        yield torch.stack(seen, 1)
        done += len(some)
        if time.monotonic() - told > _TELL_AFTER:
            told = time.monotonic()
            say(f"features of {done:,} of {len(names):,} images")


def encoder_place(folder: str | Path) -> list[Path]:
    """The files of an encoder's folder that features depend on."""
    return [path for path in (Path(folder) / "config.json", Path(folder) / "model.safetensors") if path.is_file()]
