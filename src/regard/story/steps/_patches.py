"""What a small ViT learns about positions: are those of neighbouring patches alike?"""

from __future__ import annotations

import struct
from statistics import mean

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.story import Stage
from regard.story.steps._spread import spread
from regard.views.result import Curves, Matrix, Panel

SIDE, PATCH = 24, 4
GRID = SIDE // PATCH
_IMAGES, _SHOWN = 3000, 7
_CLASSES = ((0, 1), (1, 0), (1, 1), (1, -1))
"""Where the dim spot lies from the bright one: to the right, below, or on one of two diagonals."""


def learned(stage: Stage) -> list[Tensor]:
    """The cosine of each patch's learned position with each other's [P,P], for each seed."""
    images, labels = _files(stage)
    options = {"patch_size": PATCH, "d_model": 32, "n_layers": 2, "n_heads": 4, "d_ff": 64}
    results = []
    for seed in stage.seeds:
        training = {"max_steps": 500, "rows_per_batch": 64, "lr": 3e-3, "schedule": "linear", "warmup": 50}
        recipe = {
            "task": "image_classification",
            "data": {"train": {"images": images, "labels": labels}},
            "model": {"name": "vit", "options": options},
            "training": {**training, "label_smoothing": 0.0, "clip": 1.0, "seed": seed},
        }
        model = stage.train(f"vit_{seed}", recipe).model
        places_PD = model.position.detach()[0, model.n_special :]
        unit_PD = F.normalize(places_PD - places_PD.mean(0), dim=-1)
        results.append(unit_PD @ unit_PD.T)
    return results


def panels(cosines: list[Tensor]) -> list[Panel]:
    series = {"mean of the seeds": [(distance, number) for distance, number, _ in by_distance(cosines)]}
    bands = {"mean of the seeds": [(d, number - off, number + off) for d, number, off in by_distance(cosines)]}
    shown = cosines[0][_SHOWN].view(GRID, GRID)
    labels = [str(number) for number in range(1, GRID + 1)]
    return [
        Curves("Learned positions by distance", "patches apart", "cosine", series, bands=bands,
               note="of the positions less their mean; the band is the standard deviation of the seeds"),
        Matrix("One patch and all others", labels, labels, shown.tolist(), diverging=True,
               square=True, note="cosine of the learned position in row 2, column 2 with all others"),
    ]  # fmt: skip


def by_distance(cosines: list[Tensor]) -> list[tuple[float, float, float]]:
    """Distance in patches (rounded), mean cosine and standard deviation of the seeds."""
    place = torch.stack(torch.meshgrid(torch.arange(GRID), torch.arange(GRID), indexing="ij"), -1).view(-1, 2).double()
    apart = torch.cdist(place, place).round()
    results = []
    for distance in range(1, GRID):
        numbers = [float(cosine[apart == distance].mean()) for cosine in cosines]
        results.append((float(distance), mean(numbers), spread(numbers)))
    return results


def statement(cosines: list[Tensor]) -> str:
    told = ", ".join(f"{number:.2f}" for _, number, _ in by_distance(cosines))
    return f"Learned positions of a small ViT: cosine {told} at 1 to {GRID - 1} patches apart."


def _files(stage: Stage) -> tuple[str, str]:
    """Pictures of a bright and a dim spot, each the size of a patch; the class says where the dim one lies."""
    chance = np.random.default_rng(1)
    kinds = chance.integers(len(_CLASSES), size=_IMAGES)
    steps = np.array(_CLASSES)[kinds] * (PATCH + chance.integers(0, PATCH, size=(_IMAGES, 1)))
    pixels = chance.integers(0, 30, size=(_IMAGES, SIDE, SIDE))
    for image, step in zip(pixels, steps, strict=True):
        low, high = np.maximum(0, -step), SIDE - PATCH - np.maximum(0, step)
        first = chance.integers(low, high + 1)
        for (row, column), bright in ((first, 220), (first + step, 110)):
            image[row : row + PATCH, column : column + PATCH] += bright
    images = struct.pack(">4I", 0x803, _IMAGES, SIDE, SIDE) + pixels.astype(np.uint8).tobytes()
    labels = struct.pack(">2I", 0x801, _IMAGES) + kinds.astype(np.uint8).tobytes()
    return stage.write_bytes("images.idx", images), stage.write_bytes("labels.idx", labels)
