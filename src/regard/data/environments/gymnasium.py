"""Environments of Gymnasium (Towers et al. 2024) with discrete states and actions, by their id, such as FrozenLake-v1.

A trial is `steps` steps: an episode that ends is followed by another in the same environment. If a trial is written as
text, "!" marks the step that ended an episode: "4/1:0 8/1:0! 0/2:0 1". An environment is seeded by the seed, the split
and its number. `as_gymnasium` does the reverse: it gives an environment that was made here, such as a bandit,
Gymnasium's interface, for programs that are written for it.

Gymnasium is imported when it is used: `pip install regard[gymnasium]`.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator

from regard.core.errors import ConfigError, UsageError
from regard.data.chance import Dice, Ints
from regard.data.environments._environment import Environment, Numbers, Worlds

_EXAMPLE = "FrozenLake-v1"


class Gymnasium(Environment):
    id: str = Field(description="of an environment that Gymnasium knows")
    steps: int = Field(100, gt=0, le=10_000, description="steps of a trial")
    ends_anywhere: ClassVar[bool] = True
    example: ClassVar[str] = "0/1:0 1"

    @field_validator("id")
    @classmethod
    def _imports_nothing(cls, name: str) -> str:
        """Gymnasium imports the module of "module:Env-v0" first, and an id may come from a model folder."""
        if ":" in name:
            raise ValueError("names a module to import; give the id of an environment that Gymnasium itself knows")
        return name

    @property
    def n_actions(self) -> int:
        return _sizes(self.id)[1]

    @property
    def n_states(self) -> int:
        return _sizes(self.id)[0]

    @property
    def n_steps(self) -> int:
        return self.steps

    def begin(self, seed: int, split: int, numbers: Ints) -> Worlds:
        return GymnasiumWorlds(self.id, [int(Dice(seed, split, int(n)).below(2**31, 1)[0]) for n in numbers])


class GymnasiumWorlds(Worlds):
    """Environments that are stepped one after another."""

    def __init__(self, name: str, seeds: list[int]) -> None:
        self.games = [library().make(name) for _ in seeds]
        first = [int(game.reset(seed=seed)[0]) for game, seed in zip(self.games, seeds, strict=True)]
        self.states = np.array(first, dtype=np.int64)

    def step(self, actions: Ints) -> tuple[Numbers, NDArray[np.bool_]]:
        rewards, ended, states = np.zeros(len(actions)), np.zeros(len(actions), dtype=bool), self.states.copy()
        for row, (game, action) in enumerate(zip(self.games, actions.tolist(), strict=True)):
            states[row], rewards[row], over, cut, _ = game.step(action)
            ended[row] = over or cut
            if ended[row]:
                states[row] = int(game.reset()[0])
        self.states = states
        return rewards, ended


def library() -> Any:
    """Gymnasium itself."""
    try:
        return importlib.import_module("gymnasium")
    except ImportError:
        raise UsageError("gymnasium is not installed", remedy="pip install gymnasium") from None


@functools.lru_cache(maxsize=16)
def _sizes(name: str) -> tuple[int, int]:
    """The numbers of states and actions."""
    gymnasium = library()
    try:
        game = gymnasium.make(name)
    except gymnasium.error.Error as error:
        cause = str(error).strip().rstrip(".").split("\n")[0].replace("`", "'")
        remedy = f"Give the id of one that it has, such as {_EXAMPLE}."
        raise ConfigError(f"Gymnasium cannot make the environment {name}: {cause}", remedy=remedy) from None
    spaces = game.observation_space, game.action_space
    if not all(isinstance(space, gymnasium.spaces.Discrete) and space.start == 0 for space in spaces):
        raise ConfigError(
            f"{name} is not discrete",
            got=f"a {type(spaces[0]).__name__} of states and a {type(spaces[1]).__name__} of actions",
            expected="states and actions that are numbered from 0 (Discrete)",
            remedy=f"Give an environment such as {_EXAMPLE}.",
        )
    return int(spaces[0].n), int(spaces[1].n)


def as_gymnasium(environment: Environment, *, split: int = 0) -> Any:
    """One environment at a time as a `gymnasium.Env`: `reset(seed=…)` makes a new one, `step` acts in it.

    What it shows is the state's number; a trial ends (`terminated`) after `n_steps` steps.
    """
    gymnasium = library()

    class Single(gymnasium.Env):  # type: ignore[misc, name-defined]
        observation_space = gymnasium.spaces.Discrete(max(environment.n_states, 1))
        action_space = gymnasium.spaces.Discrete(environment.n_actions)

        def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
            super().reset(seed=seed)
            drawn = int(self.np_random.integers(2**31)) if seed is None else seed
            self.worlds, self.time = environment.begin(drawn, split, np.zeros(1, dtype=np.int64)), 0
            return int(self.worlds.states[0]), {}

        def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
            rewards, ended = self.worlds.step(np.array([action]))
            self.time += 1
            over = self.time == environment.n_steps
            return int(self.worlds.states[0]), float(rewards[0]), over, False, {"episode_ended": bool(ended[0])}

    return Single()
