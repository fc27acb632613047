"""Random tabular MDPs (Duan et al. 2016): S states, A actions, episodes of H steps, several episodes per trial.

    next state ~ P(·|s, a), each P drawn from a flat Dirichlet distribution
    reward     ~ N(m(s, a), 1), m drawn from N(1, 1)

Every episode begins in state 0. The paper has 10 states, 5 actions and episodes of 10 steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from regard.data.chance import Ints
from regard.data.environments._environment import Agent, Environment, Numbers, Worlds, normals, shares_of
from regard.data.environments._mdp_agents import Psrl, RandomActions


class Mdp(Environment):
    states: int = Field(10, gt=1, le=100)
    actions: int = Field(5, gt=1, le=100)
    horizon: int = Field(10, gt=0, le=1000, description="steps of an episode")
    episodes: int = Field(10, gt=0, le=1000, description="N: episodes of a trial")

    example: ClassVar[str] = "0/1:1.5 1"

    @property
    def n_actions(self) -> int:
        return self.actions

    @property
    def n_states(self) -> int:
        return self.states

    @property
    def n_steps(self) -> int:
        return self.horizon * self.episodes

    def begin(self, seed: int, split: int, numbers: Ints) -> Worlds:
        pairs, steps = self.states * self.actions, self.n_steps
        sizes = np.cumsum([pairs * self.states, 2 * pairs, 2 * steps])
        shares = shares_of(seed, split, numbers, int(sizes[-1]) + steps)
        weights, means, noise, luck = np.split(shares, sizes, axis=1)
        shape = len(numbers), self.states, self.actions
        # Exponential numbers over their sum have a flat Dirichlet distribution.
        chances = -np.log1p(-weights).reshape(*shape, self.states)
        chances /= chances.sum(-1, keepdims=True)
        return MdpWorlds(chances, 1 + normals(means).reshape(shape), normals(noise), luck, self.horizon)

    def agents(self, count: int, seed: int) -> Mapping[str, Agent]:
        random = RandomActions(self.actions, seed)
        return {"random": random, "psrl": Psrl(count, self.states, self.actions, self.horizon, seed)}

    def ends_after(self, time: int) -> bool:
        return (time + 1) % self.horizon == 0


class MdpWorlds(Worlds):
    """`chances` [B,S,A,S], mean rewards [B,S,A], and the random numbers of each step: `noise` and `luck` [B,T]."""

    def __init__(self, chances: Numbers, means: Numbers, noise: Numbers, luck: Numbers, horizon: int) -> None:
        self.sums, self.means = np.cumsum(chances, -1), means
        self.noise, self.luck, self.horizon, self.time = noise, luck, horizon, 0
        self.states = np.zeros(len(chances), dtype=np.int64)

    def step(self, actions: Ints) -> tuple[Numbers, NDArray[np.bool_]]:
        rows, time = np.arange(len(actions)), self.time
        rewards = self.means[rows, self.states, actions] + self.noise[:, time]
        below = self.sums[rows, self.states, actions] <= self.luck[:, time, None]
        after = np.minimum(below.sum(1), self.means.shape[1] - 1)
        self.time += 1
        ended = self.time % self.horizon == 0
        self.states = np.zeros_like(after) if ended else after
        return rewards, np.full(len(actions), ended)
