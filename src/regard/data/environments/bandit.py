"""Bernoulli bandits (Duan et al. 2016): arm k pays 1 with probability p_k ~ U(0, 1), else 0; a trial is N pulls."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from regard.data.chance import Ints
from regard.data.environments._bandit_agents import Gittins, Random, Thompson, Ucb1
from regard.data.environments._environment import Agent, Environment, Numbers, Worlds, shares_of


class Bandit(Environment):
    arms: int = Field(5, gt=1, le=1000)
    pulls: int = Field(10, gt=0, le=10_000, description="N: steps of a trial")

    @property
    def n_actions(self) -> int:
        return self.arms

    @property
    def n_states(self) -> int:
        return 0

    @property
    def n_steps(self) -> int:
        return self.pulls

    def begin(self, seed: int, split: int, numbers: Ints) -> Worlds:
        shares = shares_of(seed, split, numbers, self.arms + self.pulls)
        return BanditWorlds(shares[:, : self.arms], shares[:, self.arms :])

    def agents(self, count: int, seed: int) -> Mapping[str, Agent]:
        shape = count, self.arms
        return {
            "random": Random(*shape, seed),
            "ucb1": Ucb1(*shape),
            "thompson": Thompson(*shape, seed),
            "gittins": Gittins(*shape, self.pulls),
        }


class BanditWorlds(Worlds):
    """`chances` [B,K] are the p of each arm, `luck` [B,N] decides each pull: an arm pays if its p is larger."""

    def __init__(self, chances: Numbers, luck: Numbers) -> None:
        self.chances, self.luck, self.time = chances, luck, 0
        self.states = np.zeros(len(chances), dtype=np.int64)

    def step(self, actions: Ints) -> tuple[Numbers, NDArray[np.bool_]]:
        chance = np.take_along_axis(self.chances, actions[:, None], 1)[:, 0]
        rewards = (self.luck[:, self.time] < chance).astype(np.float64)
        self.time += 1
        return rewards, np.full(len(actions), self.time == self.luck.shape[1])
