"""The average of the weights at several checkpoints of one run.

Where a run keeps a moving average, that is what its checkpoints stand for, and what is averaged.
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
    """The mean of the weights at these updates, and of how many; None where fewer than two can be read."""
    parts = []
    for step in steps:
        try:
            saved = checkpoint.read_checkpoint(folder / f"step-{step:08d}")
        except (RegardError, OSError, ValueError) as error:
            say(f"the checkpoint of update {step} is damaged and left out of the average ({error})")
            continue
        moving = {name.removeprefix(PREFIX): part for name, part in saved.training.items() if name.startswith(PREFIX)}
        parts.append(moving or saved.model)
    if len(parts) < 2:
        return None
    mean = {name: torch.stack([part[name].double() for part in parts]).mean(0).to(parts[0][name]) for name in parts[0]}
    return mean, len(parts)
