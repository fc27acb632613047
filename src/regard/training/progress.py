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
