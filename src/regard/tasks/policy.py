"""Reinforcement learning by PPO (Schulman et al. 2017) on the trials that `data/experience.py` collects.

    ratio_t = π(a_t) / π_old(a_t)
    loss    = Σ_t − min(ratio_t A_t, clip(ratio_t, 1 − ε, 1 + ε) A_t) + ½ c_v (V_t − R_t)² − c_e H(π_t)

ε is `clip`, c_v is `value_weight`, c_e is `entropy`. The mean reward of a trial, over all of its steps, is measured by
playing in held-out environments: with actions drawn as in training (`reward`), and always the likeliest (`greedy`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.core.batch import Batch
from regard.core.directions import Direction
from regard.core.measured import Measured
from regard.data.environments import Environment
from regard.data.experience import VALIDATION, Experience, play
from regard.tasks._task import Task


class Policy(Task):
    """Loss per step of `steps` [B,T,D] with `actions`, `log_probs`, `advantages` and `returns` [B,T]."""

    unit = "steps"
    directions: ClassVar[dict[str, Direction]] = {"reward": "higher", "greedy": "higher"}
    carry = True
    """Checkpoints hold the trials that are being learnt from: see `training.trained.Carries`."""

    def __init__(
        self, environment: Environment, *, clip: float, value_weight: float, entropy: float, seed: int
    ) -> None:
        self.environment, self.seed = environment, seed
        self.clip, self.value_weight, self.entropy = clip, value_weight, entropy
        self.experience: Experience | None = None
        """The source of the batches while a model is trained; None before."""

    def count(self, batch: Batch) -> int:
        return batch["actions"].numel() if "actions" in batch else batch.size

    def loss(self, model: Any, batch: Batch) -> Tensor:
        output = model(steps=batch["steps"])
        log_probs = output.logits.float().log_softmax(-1)
        chosen = log_probs.gather(-1, batch["actions"][..., None])[..., 0]
        ratio, gained = torch.exp(chosen - batch["log_probs"]), batch["advantages"]
        better = torch.minimum(ratio * gained, ratio.clamp(1 - self.clip, 1 + self.clip) * gained)
        wrong = 0.5 * (output.values.float() - batch["returns"]).square()
        spread = -(log_probs.exp() * log_probs).sum(-1)
        return (self.value_weight * wrong - better - self.entropy * spread).sum()

    def measure(self, model: Any, batch: Batch) -> Measured:
        numbers = batch["numbers"].numpy()
        sums = {
            name: float(self._rewards(model, numbers, greedy=name == "greedy").sum()) for name in ("reward", "greedy")
        }
        return Measured(sums, dict.fromkeys(sums, batch.size))

    def carried(self) -> Mapping[str, Tensor]:
        if self.experience is None or not self.experience.tensors:
            return {}
        return {**self.experience.tensors, "number": torch.tensor([self.experience.number])}

    def load_carried(self, tensors: Mapping[str, Tensor]) -> None:
        if tensors and self.experience is not None:
            self.experience.number = int(tensors["number"][0])
            self.experience.tensors = {name: tensor for name, tensor in tensors.items() if name != "number"}

    def _rewards(self, model: Any, numbers: Any, *, greedy: bool) -> NDArray[np.float64]:
        """The summed rewards of each trial."""
        played = play(model, self.environment, numbers, seed=self.seed, split=VALIDATION, greedy=greedy)
        summed: NDArray[np.float64] = played.history.rewards.sum(1)
        return summed
