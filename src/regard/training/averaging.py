"""Averages the weights of several checkpoints of one run.

If a run keeps a moving average, the moving averages in its checkpoints are averaged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor

from regard.core.errors import RegardError
from regard.training import checkpoint
from regard.training.moving_average import PREFIX


def average_checkpoints(
    folder: Path, steps: Sequence[int], say: Callable[[str], None]
) -> tuple[dict[str, Tensor], int] | None:
    """The mean of the weights at these updates, and the number averaged; None if fewer than two can be read."""
    parts = []
    for step in steps:
        try:
            saved = checkpoint.read_checkpoint(folder / f"step-{step:08d}")
        except (RegardError, OSError, ValueError) as error:
            say(f"the checkpoint of update {step} is damaged, so the average leaves it out ({error})")
            continue
        moving = {name.removeprefix(PREFIX): part for name, part in saved.training.items() if name.startswith(PREFIX)}
        parts.append(moving or saved.model)
    if len(parts) < 2:
        return None
    mean = {name: torch.stack([part[name].double() for part in parts]).mean(0).to(parts[0][name]) for name in parts[0]}
    return mean, len(parts)
