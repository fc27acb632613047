"""Reinforcement learning: a policy that learns, within a trial, how to act in an environment that is new to it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field
from torch import nn

from regard.core.config import Config
from regard.core.errors import ConfigError
from regard.data.environments import make_environment
from regard.data.experience import Collection, Experience
from regard.data.trial_rows import TrialRows
from regard.evaluation.evaluators import Evaluator, make_evaluator
from regard.runs.recipe import Recipe
from regard.runs.setup import Say, Setup
from regard.store import StoredModel
from regard.tasks.policy import Policy


class PolicyData(Config):
    environment: dict[str, Any] = Field({"name": "bandit"}, description="a file of data/environments, with options")
    trials: int = Field(256, gt=0, le=1_000_000, description="trials that are played and then learnt from")
    passes: int = Field(4, gt=0, le=1000, description="how often these trials are read")
    parts: int = Field(4, gt=0, le=10_000, description="batches of a pass")
    discount: float = Field(0.99, ge=0, le=1, description="γ")
    smoothing: float = Field(0.3, ge=0, le=1, description="λ of the advantages")
    clip: float = Field(0.2, gt=0, description="ε: how far the probability of an action may move")
    value_weight: float = Field(0.5, ge=0)
    entropy: float = Field(0.01, ge=0, description="weight of the policy's entropy")
    validation: int | None = Field(1000, gt=0, le=1_000_000, description="held-out environments")
    seed: int = Field(1, ge=0, description="seed of environments and actions; training.seed is that of the weights")


class PolicyJob(Setup):
    Data = PolicyData
    unused = ("label_smoothing",)
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "model": {"name": "snail", "size": "policy"},
        "training": {"label_smoothing": 0.0, "metric": "reward", "schedule": "constant", "warmup": 0, "clip": 0.5},
    }
    offers = ("environments",)
    data: PolicyData

    def __init__(self, recipe: Recipe, start: StoredModel | None) -> None:
        super().__init__(recipe, start)
        self.environment = make_environment(self.data.environment, "data.environment")
        data = self.data
        if data.parts > data.trials:
            expected = f"at most {data.trials}"
            raise ConfigError("data.parts is larger than data.trials", got=data.parts, expected=expected)
        self._task = Policy(
            self.environment, clip=data.clip, value_weight=data.value_weight, entropy=data.entropy, seed=data.seed
        )
        if start is not None:
            had = {name: getattr(start.config, name, None) for name in self.fixed_options()}
            if had != self.fixed_options():
                raise ConfigError(
                    "the model does not fit this environment",
                    got=str(had),
                    expected=str(self.fixed_options()),
                    remedy="Give the environment that it was trained in.",
                )

    def task(self) -> Policy:
        return self._task

    def usual_evaluators(self) -> list[Evaluator]:
        return [make_evaluator("agents")]

    def fixed_options(self) -> dict[str, Any]:
        world = self.environment
        return {"head": "policy", "n_outputs": world.n_actions, "seq_len": world.n_steps, "d_input": world.d_input}

    def encode(self, folder: Path, say: Say) -> tuple[int, int | None]:
        return self.data.trials, self.data.validation

    def batches(self, examples: int, *, shuffle: bool) -> TrialRows:
        """Held-out environments; the training data is `experience`."""
        return TrialRows(examples, rows=self.recipe.training.rows_per_batch or 500, seed=self.data.seed)

    def experience(self, model: nn.Module) -> Experience:
        data = self.data
        how = Collection(data.trials, data.passes, data.parts, data.discount, data.smoothing)
        self._task.experience = Experience(model, self.environment, how, seed=data.seed)  # type: ignore[arg-type]
        return self._task.experience

    def extra(self) -> dict[str, Any]:
        return {"environment": dict(self.data.environment), "seed": self.data.seed}

    def material(self) -> dict[str, Any]:
        return {"environments": (self.environment, self.data.seed, self.data.validation or 0)}
