"""Acts in the kind of environment that a policy was trained in, and decides after a trial that is written as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from regard.core.errors import ConfigError, UsageError
from regard.data.environments import Environment, make_environment, step_features
from regard.data.experience import VALIDATION, play
from regard.explain import Subject
from regard.pipelines import _subjects as subjects
from regard.pipelines._loaded import Loaded, check_texts
from regard.pipelines._verbs import verb


@dataclass(frozen=True)
class Trial:
    """What a policy did in one environment: state, action and reward of each step, and whether it ended an episode."""

    states: list[int]
    actions: list[int]
    rewards: list[float]
    ended: list[bool]

    @property
    def reward(self) -> float:
        return sum(self.rewards)


@dataclass(frozen=True)
class Decision:
    """The most likely action, and the probabilities of all; `value` is the return that is expected from here, scaled
    as in training (`data/experience.py`)."""

    action: int
    probabilities: list[float]
    value: float


class PolicyPipeline(Loaded):
    usage = 'regard explain FOLDER "0:1 0:0 1:1"'

    @classmethod
    def usage_of(cls, extra: Mapping[str, Any]) -> str:
        said = extra.get("environment")
        example = make_environment(said, "the environment of the folder").example if isinstance(said, dict) else None
        return cls.usage if example is None else f'regard explain FOLDER "{example}"'

    @property
    def environment(self) -> Environment:
        """The kind of environment that it was trained in, as its folder says."""
        said = self.stored.extra.get("environment")
        if not isinstance(said, dict):
            raise ConfigError("the folder does not say which environment this policy is for", got=repr(said)[:80])
        made = make_environment(said, "the environment of the folder")
        sizes = made.n_actions, made.n_steps, made.d_input
        if sizes != (self.config.n_outputs, self.config.seq_len, self.config.d_input):
            raise ConfigError("the environment does not fit the model", got=str(sizes))
        return made

    @verb("a policy", command=False)
    def play(self, count: int = 1, *, first: int = 0, greedy: bool = False) -> list[Trial]:
        """Trials in `count` held-out environments, from number `first`."""
        if count < 1 or first < 0:
            raise UsageError("there is no such environment", got=f"{count} from {first}", expected="1 or more from 0")
        seed = int(self.stored.extra.get("seed", 0))
        numbers = np.arange(first, first + count)
        history = play(self.model, self.environment, numbers, seed=seed, split=VALIDATION, greedy=greedy).history
        parts = (history.states, history.actions, history.rewards, history.ended)
        return [Trial(*row) for row in zip(*(part.tolist() for part in parts), strict=True)]

    @verb("a policy", command=False)
    def decide(self, trials: Sequence[str]) -> list[Decision]:
        """The next action of each trial so far, written as `environment.read` says."""
        check_texts(trials)
        steps, last = self._steps(trials)
        with torch.inference_mode():
            output = self.model(steps=steps)
        rows = torch.arange(len(last))
        shares, values = output.logits[rows, last].softmax(-1), output.values[rows, last]
        return [
            Decision(int(row.argmax()), row.tolist(), float(value)) for row, value in zip(shares, values, strict=True)
        ]

    def subject(self, inputs: Any, target: Any = None, **_: Any) -> Subject:
        """One trial so far or several. The number is log p of the most likely action."""
        texts = subjects.listed(inputs, "trial")
        (steps, last), decisions = self._steps(texts), self.decide(texts)
        labels = [["start", *(word for word in text.split() if ":" in word)] for text in texts]
        named = [[f"action {each.action}", each.probabilities[each.action]] for each in decisions]
        return Subject(
            self.stored.name,
            self.stored.task,
            self.model,
            {"steps": steps},
            {"input": labels},
            last_score,
            {"wanted": torch.tensor([[each.action] for each in decisions]), "last": last},
            output={"classes": named},
            untrained=subjects.untrained(self, lambda other: other.subject(inputs, target)),
            texts=texts,
        )

    def _steps(self, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
        """What the policy reads [B,T,D], with zeros after a row's end, and the last step of each row [B]."""
        environment, rows = self.environment, list[Tensor]()
        for text in texts:
            history = environment.read(text)
            times = range(history.states.shape[1])
            rows.append(torch.cat([step_features(environment, history, time) for time in times]))
        return pad_sequence(rows, batch_first=True), torch.tensor([len(row) - 1 for row in rows])


def last_score(output: Any, goal: Mapping[str, Tensor]) -> Tensor:
    """log p of the action at the last step of each row [B]."""
    rows = torch.arange(len(goal["last"]))
    log_probs: Tensor = output.logits[rows, goal["last"]].float().log_softmax(-1)
    return log_probs.gather(1, goal["wanted"])[:, 0]
