"""The progress of a run: the numbers that, with the tensors, make up a checkpoint."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Progress:
    """Counted in updates, epochs, and batches of the current epoch."""

    step: int = 0
    epoch: int = 0
    batch: int = 0
    best: float | None = None
    best_step: int = 0
    since_best: int = 0
    validated: list[int] = field(default_factory=list)
    """The last validated updates, whose checkpoints are averaged; without validation, the last regular checkpoints."""
    items: int = 0
    """Items of the loss (tokens, images and so on) in all updates."""
    counted_items: int = 0
    counted_flops: float = 0.0
    """Items and FLOPs of the updates that were counted (`training/flops.py`)."""
    uncounted: bool = False
    """Whether earlier updates were made without counting their items."""
