"""Baselines for random tabular MDPs, for many of them at once.

random    any action
psrl      posterior sampling (Strens 2000; Osband et al. 2013): before each episode draw an MDP from what is known,
          P(·|s, a) ~ Dirichlet(1 + counts), m(s, a) ~ N((1 + Σ rewards) / (1 + n), 1 / (1 + n)), and act in the
          episode as is best in the drawn MDP, by dynamic programming over the steps that are left
"""

from __future__ import annotations

import numpy as np

from regard.data.chance import Ints
from regard.data.environments._environment import Numbers


class RandomActions:
    def __init__(self, actions: int, seed: int) -> None:
        self.actions, self.random = actions, np.random.Generator(np.random.Philox(seed))

    def act(self, states: Ints, time: int) -> Ints:
        return self.random.integers(self.actions, size=len(states))

    def learn(self, states: Ints, actions: Ints, rewards: Numbers, after: Ints) -> None:
        pass


class Psrl:
    def __init__(self, rows: int, states: int, actions: int, horizon: int, seed: int) -> None:
        self.horizon, self.random = horizon, np.random.Generator(np.random.Philox(seed))
        self.counts = np.zeros((rows, states, actions, states))
        self.sums, self.visits = np.zeros((rows, states, actions)), np.zeros((rows, states, actions))
        self.time = 0

    def act(self, states: Ints, time: int) -> Ints:
        if time % self.horizon == 0:
            self.best = self._planned()
        return self.best[time % self.horizon, np.arange(len(states)), states]

    def learn(self, states: Ints, actions: Ints, rewards: Numbers, after: Ints) -> None:
        rows = np.arange(len(actions))
        self.sums[rows, states, actions] += rewards
        self.visits[rows, states, actions] += 1
        self.time += 1
        # After an episode's last step a new episode begins; its state says nothing about this action.
        if self.time % self.horizon:
            self.counts[rows, states, actions, after] += 1

    def _planned(self) -> Ints:
        """The best action at each step and state of a drawn MDP [H,B,S]."""
        chances = self.random.standard_gamma(1 + self.counts)
        chances /= chances.sum(-1, keepdims=True)
        known = 1 + self.visits
        means = (1 + self.sums) / known + self.random.standard_normal(known.shape) / np.sqrt(known)
        later, best = np.zeros(means.shape[:2]), []
        for _ in range(self.horizon):
            worth = means + np.einsum("bsat,bt->bsa", chances, later)
            best.append(worth.argmax(-1))
            later = worth.max(-1)
        return np.stack(best[::-1])
