"""The contract of environments, and how a policy sees them.

A policy learns within one trial of `n_steps` steps (Duan et al. 2016, RL²): before step t it reads the state, its last
action, its last reward, and whether an episode has just ended. A trial may hold several episodes in one environment.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from regard.core.config import Config
from regard.core.errors import DataError
from regard.data.chance import Dice, Ints

Numbers = NDArray[np.float64]
_STEP = r"(?:(\d{1,6})/)?(\d{1,6}):([-+]?\d{1,9}(?:\.\d{1,9})?)"
_TOKENS = {False: re.compile(f"{_STEP}()"), True: re.compile(f"{_STEP}(!?)")}
"""A step as text, by whether episodes may end at any step."""
_STATE = re.compile(r"\d{1,6}")


class Worlds(ABC):
    """Several environments at the same step of their trials. `states` [B] are visible; 0 if there are no states."""

    states: Ints

    @abstractmethod
    def step(self, actions: Ints) -> tuple[Numbers, NDArray[np.bool_]]:
        """Act in each environment: the rewards [B], and whether an episode ended. `states` are then the next ones."""


class Agent(Protocol):
    """A baseline that acts in many environments at once."""

    def act(self, states: Ints, time: int) -> Ints: ...
    def learn(self, states: Ints, actions: Ints, rewards: Numbers, after: Ints) -> None: ...


class Environment(Config, ABC):
    """A kind of environment; its fields are its options. Actions are 0 … n_actions − 1, states 0 … n_states − 1."""

    @property
    @abstractmethod
    def n_actions(self) -> int: ...

    @property
    @abstractmethod
    def n_states(self) -> int:
        """The number of visible states; 0 if there are none."""

    @property
    @abstractmethod
    def n_steps(self) -> int:
        """The number of steps of a trial."""

    @abstractmethod
    def begin(self, seed: int, split: int, numbers: Ints) -> Worlds:
        """The environments with these numbers, before their first step."""

    def agents(self, count: int, seed: int) -> Mapping[str, Agent]:
        """Baselines for `count` environments, by name; they know the kind, not the single environment."""
        return {}

    example: ClassVar[str | None] = None
    """A trial so far, as `read` takes it, for the example command of a model."""

    ends_anywhere: ClassVar[bool] = False
    """Whether an episode may end at any step; a trial that is written as text then marks its ends."""

    def ends_after(self, time: int) -> bool:
        """Whether an episode always ends with this step, counted from 0. Not asked if it may end at any step."""
        return time == self.n_steps - 1

    @property
    def d_input(self) -> int:
        """The number of features of a step, as `step_features` returns them."""
        return self.n_states + self.n_actions + 2

    def read(self, text: str) -> History:
        """A trial so far, written as "action:reward" or "state/action:reward", and the state now if there are states:

        "2:1 0:0 2:1" for a bandit; "0/3:1.5 4/1:0.2 7" for an MDP that is now in state 7. If an episode may end at any
        step, as in Gymnasium, "!" follows the step that ended one: "4/1:0 8/1:0! 0/2:0 1".
        """
        words = text.split()
        now = "" if self.n_states and words else "0"  # where there are states, a trial says in which it is now
        if self.n_states and words and ":" not in words[-1]:
            now = words.pop()
        parts = [_TOKENS[self.ends_anywhere].fullmatch(word) for word in words]
        stateless = [match[0] for match in parts if match is not None and self.n_states and match[1] is None]
        if None in parts or stateless or not _STATE.fullmatch(now):
            wrong = words[parts.index(None)] if None in parts else stateless[0] if stateless else now or text
            form = "state/action:reward … state" if self.n_states else "action:reward"
            form += ", with ! after a step that ended an episode" if self.ends_anywhere else ""
            raise DataError("this is no trial", got=repr(wrong[:40]), expected=form)
        taken = [match.groups() for match in parts if match is not None]
        states = [int(state or 0) for state, *_ in taken] + [int(now)]
        actions = [int(action) for _, action, *_ in taken]
        if max([*actions, 0]) >= self.n_actions or max(states) >= max(self.n_states, 1):
            expected = f"actions below {self.n_actions}" + (f", states below {self.n_states}" if self.n_states else "")
            raise DataError("there is no such action or state", got=text[:60], expected=expected)
        if len(actions) >= self.n_steps:
            raise DataError("this trial is over", got=f"{len(actions)} steps", expected=f"fewer than {self.n_steps}")
        history = History.empty(1, len(states))
        history.states[0] = states
        for time, (action, (_, _, reward, mark)) in enumerate(zip(actions, taken, strict=True)):
            history.actions[0, time], history.rewards[0, time] = action, float(reward)
            history.ended[0, time] = bool(mark) if self.ends_anywhere else self.ends_after(time)
        return history


@dataclass(frozen=True, eq=False)
class History:
    """What happened in trials [B,T]; the action at step t was taken in the state at step t."""

    states: Ints
    actions: Ints
    rewards: Numbers
    ended: NDArray[np.bool_]

    @classmethod
    def empty(cls, rows: int, steps: int) -> History:
        whole = np.zeros((rows, steps), dtype=np.int64)
        return cls(whole, whole - 1, np.zeros((rows, steps)), np.zeros((rows, steps), dtype=bool))

    def before(self, time: int) -> tuple[Any, Any, Any, Any]:
        """What is known before a step: state, last action (−1: none), last reward, whether an episode ended [B]."""
        if time:
            last = time - 1
            return self.states[:, time], self.actions[:, last], self.rewards[:, last], self.ended[:, last]
        rows = len(self.states)
        return self.states[:, 0], np.full(rows, -1), np.zeros(rows), np.zeros(rows, dtype=bool)


def step_features(environment: Environment, history: History, time: int) -> Float[Tensor, "B D"]:
    """What a policy reads before a step: [state ; last action ; last reward ; an episode has just ended]."""
    state, action, reward, ended = (torch.from_numpy(np.ascontiguousarray(part)) for part in history.before(time))
    parts = [F.one_hot(action + 1, environment.n_actions + 1)[:, 1:], reward[:, None], ended[:, None]]
    if environment.n_states:
        parts.insert(0, F.one_hot(state, environment.n_states))
    return torch.cat([part.float() for part in parts], 1)


def shares_of(seed: int, stream: int, numbers: Ints, count: int) -> Numbers:
    """`count` numbers from 0 to 1 for each environment [B,count]; they do not depend on the other environments."""
    return np.stack([Dice(seed, stream, int(number)).shares(count) for number in numbers])


def normals(shares: Numbers) -> Numbers:
    """Standard normal numbers from an even number of shares, half as many (Box and Muller 1958)."""
    first, second = np.split(shares, 2, axis=-1)
    return np.sqrt(-2 * np.log1p(-first)) * np.cos(2 * np.pi * second)
