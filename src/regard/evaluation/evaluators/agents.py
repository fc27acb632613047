"""The mean reward of baselines that need no training, in the environments in which the policy is measured.

The baselines depend on the kind of environment: random actions, UCB1, Thompson sampling and Gittins' index for bandits,
random actions and posterior sampling (PSRL) for MDPs. They are played once per run, since the environments are the same
at each validation.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from regard.core.directions import Direction
from regard.data.environments import Environment, make_environment
from regard.data.experience import VALIDATION
from regard.evaluation.evaluators import Evaluator
from regard.evaluation.held_out import HeldOut

_NAMES = ("random", "ucb1", "thompson", "gittins", "psrl")


class Agents(Evaluator):
    directions: ClassVar[Mapping[str, Direction]] = dict.fromkeys(_NAMES, "higher")
    needs: ClassVar[tuple[str, ...]] = ("environments",)

    def __call__(self, held_out: HeldOut) -> dict[str, float]:
        environment, seed, count = held_out.material["environments"]
        name = type(environment).__module__.rsplit(".", 1)[-1]
        return dict(_rewards(name, environment.model_dump_json(), seed, count))


@functools.lru_cache(maxsize=8)
def _rewards(name: str, options: str, seed: int, count: int) -> Mapping[str, float]:
    environment = make_environment({"name": name, **json.loads(options)})
    names = environment.agents(1, seed)
    return {agent: float(agent_rewards(environment, agent, seed, count).mean()) for agent in names}


def agent_rewards(environment: Environment, name: str, seed: int, count: int) -> NDArray[np.float64]:
    """The summed rewards of a baseline in each held-out environment [count]."""
    worlds, agent = environment.begin(seed, VALIDATION, np.arange(count)), environment.agents(count, seed)[name]
    total = np.zeros(count)
    for time in range(environment.n_steps):
        states = worlds.states
        actions = agent.act(states, time)
        rewards, _ = worlds.step(actions)
        agent.learn(states, actions, rewards, worlds.states)
        total += rewards
    return total
