"""A recipe: task, data, model and training as one YAML file.

A recipe is data, not code. `$REGARD_DATA` and other variables in its paths are expanded. Missing values get defaults;
unknown keys are refused. The contents of its `data` section are defined by its task: the file with the task's name in
`runs/jobs/`.
"""

from __future__ import annotations

from typing import Any, Self

from pydantic import Field, model_validator

from regard.core.config import Config
from regard.core.search import Search
from regard.training.config import TrainingConfig


class ModelChoice(Config):
    name: str | None = Field(None, description="a file of regard/models; by default the task's usual model")
    size: str | None = None
    options: dict[str, Any] = Field(default_factory=dict)
    start: str | None = Field(None, description="a model folder whose weights and vocabulary to start from")
    start_weights: bool = Field(
        True, description="false: only the vocabulary and the sizes of start, to train the same network from scratch"
    )
    embeddings: str | dict[str, str] | None = Field(
        None, description="word vectors for the table of the inputs, or by table: {source_embedding: PATH}"
    )

    @model_validator(mode="after")
    def _of_a_start(self) -> Self:
        if self.start is None and not self.start_weights:
            raise ValueError("start_weights: false needs start, the folder whose vocabulary and sizes to use")
        return self


class Recipe(Config):
    task: str = "translation"
    data: Config
    model: ModelChoice = ModelChoice()
    training: TrainingConfig
    search: Search = Search()
    evaluation: tuple[str | dict[str, Any], ...] | None = Field(
        None, description="evaluators, by name or with options: [bleu, {name: chrf, beam: 4}]; None: the task's usual"
    )


def differences(before: Recipe, now: Recipe) -> dict[str, str]:
    """The differences, by dotted name, as text."""

    def flat(data: Any, name: str = "") -> dict[str, Any]:
        if isinstance(data, dict):
            return {key: value for part, inner in data.items() for key, value in flat(inner, f"{name}.{part}").items()}
        return {name.lstrip("."): data}

    old, new = flat(before.model_dump()), flat(now.model_dump())
    names = sorted(name for name in {*old, *new} if old.get(name) != new.get(name))
    return {name: f"{name} {old.get(name)} → {new.get(name)}" for name in names}
