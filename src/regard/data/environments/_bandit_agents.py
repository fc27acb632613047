"""Baselines for Bernoulli bandits with p ~ U(0, 1), for many bandits at once.

random      any arm
ucb1        each arm once, then the largest mean + √(2 ln t / n) (Auer et al. 2002)
thompson    the largest of p_k ~ Beta(1 + wins, 1 + losses) (Thompson 1933)
gittins     the largest Gittins index (Gittins 1979). The index of an arm with a wins and b losses, a prior win and loss
            included, is the λ at which pulling it and taking λ for ever are worth the same:

            λ / (1 − β) = m (1 + β V_λ(a + 1, b)) + (1 − m) β V_λ(a, b + 1),   m = a / (a + b)
            V_λ(a, b)   = max(λ / (1 − β), the right side)

            It is optimal for rewards discounted by β for ever; for N pulls we take β = 1 − 1/N. V is computed
            backwards from states with many pulls, for a grid of λ at once.
"""

from __future__ import annotations

import functools

import numpy as np

from regard.data.chance import Ints
from regard.data.environments._environment import Numbers

_GRID = 1000


class _Counting:
    """Wins and losses of each arm [B,K]."""

    def __init__(self, rows: int, arms: int) -> None:
        self.wins, self.losses = np.zeros((rows, arms)), np.zeros((rows, arms))

    def learn(self, states: Ints, actions: Ints, rewards: Numbers, after: Ints) -> None:
        rows = np.arange(len(actions))
        self.wins[rows, actions] += rewards
        self.losses[rows, actions] += 1 - rewards


class Random(_Counting):
    def __init__(self, rows: int, arms: int, seed: int) -> None:
        super().__init__(rows, arms)
        self.random = np.random.Generator(np.random.Philox(seed))

    def act(self, states: Ints, time: int) -> Ints:
        return self.random.integers(self.wins.shape[1], size=len(states))


class Ucb1(_Counting):
    def act(self, states: Ints, time: int) -> Ints:
        pulls = self.wins + self.losses
        bound = np.sqrt(2 * np.log(max(time, 1)) / np.maximum(pulls, 1))
        scores = np.where(pulls == 0, np.inf, self.wins / np.maximum(pulls, 1) + bound)
        return scores.argmax(1)


class Thompson(Random):
    def act(self, states: Ints, time: int) -> Ints:
        return self.random.beta(1 + self.wins, 1 + self.losses).argmax(1)


class Gittins(_Counting):
    def __init__(self, rows: int, arms: int, pulls: int) -> None:
        super().__init__(rows, arms)
        self.table = gittins_indices(pulls, 1 - 1 / max(pulls, 2))

    def act(self, states: Ints, time: int) -> Ints:
        return self.table[self.wins.astype(int), self.losses.astype(int)].argmax(1)


@functools.lru_cache(maxsize=8)
def gittins_indices(pulls: int, discount: float) -> Numbers:
    """The index after w wins and l losses [pulls + 1, pulls + 1], for w + l ≤ pulls; else 0."""
    grid = (np.arange(_GRID) + 0.5) / _GRID
    retire = grid / (1 - discount)
    # Past this many pulls the mean hardly moves any more within the discount's horizon.
    last = pulls + 2 + int(min(4 / (1 - discount), 1000))
    indices = np.zeros((pulls + 1, pulls + 1))
    wins = np.arange(1, last)[:, None]  # the prior's win included; losses are `last` − wins
    values = np.maximum(retire, wins / last / (1 - discount))
    for total in range(last - 1, 1, -1):
        wins = np.arange(1, total)[:, None]
        mean = wins / total
        pull = mean * (1 + discount * values[1:]) + (1 - mean) * discount * values[:-1]
        if total - 2 <= pulls:
            # `retire` rises faster with λ than `pull`: the index is where they cross.
            crossing = (pull > retire).sum(1) / _GRID
            indices[wins[:, 0] - 1, total - 1 - wins[:, 0]] = crossing
        values = np.maximum(retire, pull)
    return indices
