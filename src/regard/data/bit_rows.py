"""Rows of a generated task on bits. A row depends on the seed, the split and its own number, and on nothing else."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from regard.core.errors import ConfigError
from regard.data.bit_tasks import BitTask, Steps
from regard.data.bit_tasks._steps import MOST_STEPS
from regard.data.chance import Dice, Ints

SPLITS = ("train", "validation")


class BitRows:
    """`count` rows of a task with lengths from `shortest` to `longest`; `lengths` are their numbers of steps."""

    def __init__(self, task: BitTask, count: int, *, shortest: int, longest: int, split: str, seed: int) -> None:
        if not task.shortest <= shortest <= longest:
            raise ConfigError(
                "data.length does not fit this task",
                got=f"{shortest} to {longest}",
                expected=f"from {task.shortest} up, the shortest first",
            )
        if (most := task.n_steps(longest, task.choices(longest) - 1)) > MOST_STEPS:
            raise ConfigError("data.length is too long", got=f"{most:,} steps", expected=f"at most {MOST_STEPS:,}")
        self.task, self.seed, self.split = task, seed, SPLITS.index(split)
        drawn = Dice(seed, self.split).below(2**31, 2 * count).reshape(count, 2)
        self.sizes: Ints = shortest + drawn[:, 0] % (longest - shortest + 1)
        self.choices: Ints = drawn[:, 1] % np.array([task.choices(int(size)) for size in self.sizes], dtype=np.int64)
        pairs = zip(self.sizes.tolist(), self.choices.tolist(), strict=True)
        self.lengths: Ints = np.array([task.n_steps(size, choice) for size, choice in pairs], dtype=np.int64)

    def __len__(self) -> int:
        return len(self.lengths)

    def row(self, number: int) -> Steps:
        count = self.task.vectors(int(self.sizes[number]))
        drawn = Dice(self.seed, self.split, number).below(2, count * self.task.bits)
        return self.task.make(drawn.reshape(count, -1).astype(np.float32), int(self.choices[number]))

    def tensors(self, rows: Sequence[int]) -> dict[str, Tensor]:
        return padded([self.row(number) for number in rows])


def padded(rows: Sequence[Steps]) -> dict[str, Tensor]:
    """`bits` [B,T,I], `targets` [B,T,O] and `asked` [B,T]; after a row's end, all of them are zero."""
    longest = max(len(steps.asked) for steps in rows)
    filled = []
    for name in ("inputs", "targets", "asked"):
        parts = [torch.from_numpy(getattr(steps, name)) for steps in rows]
        whole = parts[0].new_zeros(len(rows), longest, *parts[0].shape[1:])
        for place, part in enumerate(parts):
            whole[place, : len(part)] = part
        filled.append(whole)
    return dict(zip(("bits", "targets", "asked"), filled, strict=True))
