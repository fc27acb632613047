"""Training data that a policy produces by acting: trials in many environments, with advantages.

    δ_t = r_t + γ V_{t+1} − V_t        A_t = δ_t + γλ A_{t+1}        R_t = A_t + V_t      (Schulman et al. 2016, GAE)

γ is `discount`, λ is `smoothing`; V after the last step is 0. A_t is then scaled to mean 0 and variance 1. Rewards are
divided by Σ_t γ^t over a trial beforehand: R is then of the size of one step's reward, and the loss of V does not
outweigh that of the policy in a long trial.

An epoch is one collection of trials by the policy as it is when the epoch begins, read `passes` times in `parts`
batches (Schulman et al. 2017, PPO). Environments and choices depend only on the seed and on numbers, so an epoch that
begins again with the same weights is the same. To resume an epoch in its middle, the collection itself is needed, since
the weights have changed since: `tensors` and `number` are stored in the checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from regard.core.batch import Batch
from regard.core.errors import UsageError
from regard.core.output import Output
from regard.data.chance import Dice, Ints
from regard.data.environments import Environment, History, step_features
from regard.data.environments._environment import Numbers, shares_of

TRAIN, VALIDATION = 0, 1
_CHOICES = 2  # added to a split, for the random numbers that choose actions
_ORDER = 4
_MOST_NUMBERS = 1 << 23
"""Limit on the numbers that the policy remembers at one time; more trials are played in groups, one after another."""


class Policy(Protocol):
    """A model that decides one step at a time (`models/snail.py`)."""

    def new_past(self, rows: int, *, steps: int | None = None) -> dict[str, Tensor]: ...
    def advance(self, step_BD: Tensor, past: dict[str, Tensor], time: int) -> Output: ...


class Played(NamedTuple):
    """Trials: what happened, what was read [B,T,D], log p of the actions and the expected returns [B,T]."""

    history: History
    steps: Tensor
    log_probs: Tensor
    values: Tensor


class Collection(NamedTuple):
    """How trials are collected and read."""

    trials: int
    passes: int
    parts: int
    discount: float
    smoothing: float


def play(
    policy: Policy, environment: Environment, numbers: Ints, *, seed: int, split: int, greedy: bool = False
) -> Played:
    """Play trials in the environments with these numbers; `greedy` always takes the most likely action."""
    width = sum(part.shape[-1] for part in policy.new_past(1).values())
    rows = max(1, _MOST_NUMBERS // (width * environment.n_steps))
    parts = [
        _play(policy, environment, numbers[at : at + rows], seed, split, greedy) for at in range(0, len(numbers), rows)
    ]
    if len(parts) == 1:
        return parts[0]
    whole = History(*(np.concatenate([getattr(part.history, name) for part in parts])
                      for name in ("states", "actions", "rewards", "ended")))  # fmt: skip
    return Played(whole, *(torch.cat([getattr(part, name) for part in parts])
                           for name in ("steps", "log_probs", "values")))  # fmt: skip


@torch.no_grad()
def _play(policy: Policy, environment: Environment, numbers: Ints, seed: int, split: int, greedy: bool) -> Played:
    worlds, steps = environment.begin(seed, split, numbers), environment.n_steps
    history, past = History.empty(len(numbers), steps), policy.new_past(len(numbers), steps=steps)
    luck = None if greedy else shares_of(seed, split + _CHOICES, numbers, steps)
    read, log_probs, values = [], [], []
    for time in range(steps):
        history.states[:, time] = worlds.states
        read.append(step_features(environment, history, time))
        output = policy.advance(read[-1], past, time)
        assert output.logits is not None
        assert output.values is not None
        chosen_from = output.logits[:, 0].float().log_softmax(-1)
        actions = _chosen(chosen_from, None if luck is None else luck[:, time])
        history.actions[:, time] = actions.numpy()
        history.rewards[:, time], history.ended[:, time] = worlds.step(history.actions[:, time])
        log_probs.append(chosen_from.gather(1, actions[:, None])[:, 0])
        values.append(output.values[:, 0].float())
    return Played(history, torch.stack(read, 1), torch.stack(log_probs, 1), torch.stack(values, 1))


def _chosen(log_probs_BA: Tensor, luck_B: Numbers | None) -> Tensor:
    """The most likely action, or an action drawn by a number from 0 to 1."""
    if luck_B is None:
        return log_probs_BA.argmax(-1)
    sums = log_probs_BA.double().exp().cumsum(-1)
    return (sums <= torch.from_numpy(luck_B)[:, None]).sum(-1).clamp_max(sums.shape[-1] - 1)


def advantages(rewards_BT: Tensor, values_BT: Tensor, *, discount: float, smoothing: float) -> Tensor:
    """A of each step [B,T], not scaled."""
    after_BT = torch.cat([values_BT[:, 1:], torch.zeros_like(values_BT[:, :1])], 1)
    errors_BT = rewards_BT + discount * after_BT - values_BT
    gained_BT, running = torch.empty_like(errors_BT), torch.zeros_like(errors_BT[:, 0])
    for time in range(errors_BT.shape[1] - 1, -1, -1):
        running = errors_BT[:, time] + discount * smoothing * running
        gained_BT[:, time] = running
    return gained_BT


class Experience:
    """The batches of a policy's own trials: see `training.trained.Data`."""

    def __init__(self, policy: Policy, environment: Environment, how: Collection, *, seed: int) -> None:
        self.policy, self.environment, self.how, self.seed = policy, environment, how, seed
        self.tensors: dict[str, Tensor] = {}
        self.number = -1
        """The epoch whose trials `tensors` holds."""

    def batches_in_epoch(self, number: int) -> int:
        return self.how.passes * self.how.parts

    def epoch(self, number: int, start: int = 0, *, rank: int = 0, world: int = 1) -> Iterator[Batch]:
        """The trials are played when the first batch is asked for."""
        if world > 1:
            raise UsageError("a policy is trained by one process", got=f"{world} processes")
        if start == 0:
            self.tensors, self.number = self.collect(number), number
        elif self.number != number:
            raise UsageError(f"the trials of epoch {number} are missing", got=f"those of {self.number}",
                             remedy="Resume from a checkpoint that holds them.")  # fmt: skip
        for batch in range(start, self.batches_in_epoch(number)):
            yield self._batch(number, batch)

    def collect(self, number: int) -> dict[str, Tensor]:
        """Play the trials of an epoch."""
        how = self.how
        numbers: Any = np.arange(number * how.trials, (number + 1) * how.trials)
        played = play(self.policy, self.environment, numbers, seed=self.seed, split=TRAIN)
        whole = sum(how.discount**time for time in range(self.environment.n_steps))
        rewards = torch.from_numpy(played.history.rewards).float() / whole
        gained = advantages(rewards, played.values, discount=how.discount, smoothing=how.smoothing)
        return {
            "steps": played.steps,
            "actions": torch.from_numpy(played.history.actions),
            "log_probs": played.log_probs,
            "advantages": (gained - gained.mean()) / gained.std().clamp_min(1e-6),
            "returns": gained + played.values,
        }

    def _batch(self, number: int, batch: int) -> Batch:
        turn, part = divmod(batch, self.how.parts)
        order = Dice(self.seed, _ORDER, number * self.how.passes + turn).order(self.how.trials)
        rows = order[part :: self.how.parts]
        chosen = torch.from_numpy(np.ascontiguousarray(rows))
        first = number * self.how.trials
        return Batch(
            {name: tensor[chosen] for name, tensor in self.tensors.items()},
            tuple((first + rows).tolist()),
        )
