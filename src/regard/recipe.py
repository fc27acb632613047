"""A recipe: task, data, model and training as one YAML file.

A recipe is data, not code. `$REGARD_DATA` and other variables in its paths are filled in. What it leaves out has
defaults; what it misspells is refused. What its `data` section holds is said by its task: the file of that name in
`regard/jobs/`.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self, cast

from pydantic import Field, create_model

from regard.core import config as configs
from regard.core import lookup
from regard.core.config import Config
from regard.core.errors import DataError, UnknownName
from regard.decoding import Search
from regard.training.config import TrainingConfig

JOBS = "regard.jobs"


class ModelConfig(Config):
    name: str | None = Field(None, description="a file of regard/models; by default the task's usual model")
    size: str | None = None
    options: dict[str, Any] = Field(default_factory=dict)
    start: str | None = Field(None, description="a model folder whose weights and vocabulary to go on from")


class Recipe(Config):
    task: str = "translation"
    data: Config
    model: ModelConfig = ModelConfig()
    training: TrainingConfig
    search: Search = Search()

    @classmethod
    def parse(cls, data: Mapping[str, Any], where: str = "recipe") -> Self:
        """The recipe with its task's own `data` section, and with the task's defaults where it says nothing."""
        if cls is not Recipe:
            return super().parse(data, where)
        task = data.get("task", "translation")
        if task not in lookup.names(JOBS):
            raise UnknownName(f"task in {where}", task, lookup.names(JOBS))
        job = lookup.find(JOBS, task)
        recipe = _recipe_of(task).parse(_with_defaults(data, job.defaults), where)
        if recipe.training.metric not in job.metrics:
            raise UnknownName(f"training.metric of {task} in {where}", recipe.training.metric, job.metrics)
        return cast(Self, recipe)


def read(path: str | Path, changes: Mapping[str, str] | None = None) -> Recipe:
    """The recipe in a file, with changes such as {"training.lr": "1e-3"} on top."""
    return Recipe.parse(configs.override(configs.read(path), changes or {}), str(path))


def filled_in(text: str) -> Path:
    path = os.path.expandvars(os.path.expanduser(text))
    if "$" in path:
        raise DataError(f"{text} names a variable that is not set", remedy="Set it: export REGARD_DATA=/path/to/data")
    return Path(path)


def differences(before: Recipe, now: Recipe) -> dict[str, str]:
    """Dotted names of what differs, and how."""

    def flat(data: Any, name: str = "") -> dict[str, Any]:
        if isinstance(data, dict):
            return {key: value for part, inner in data.items() for key, value in flat(inner, f"{name}.{part}").items()}
        return {name.lstrip("."): data}

    one, other = flat(before.model_dump()), flat(now.model_dump())
    names = sorted(name for name in {*one, *other} if one.get(name) != other.get(name))
    return {name: f"{name} {one.get(name)} → {other.get(name)}" for name in names}


@functools.cache
def _recipe_of(task: str) -> type[Recipe]:
    return create_model("Recipe", __base__=Recipe, __module__=__name__, data=(lookup.find(JOBS, task).Data, ...))


def _with_defaults(data: Mapping[str, Any], defaults: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    filled = dict(data)
    for section, values in defaults.items():
        given = filled.get(section, {})
        # A model to start from is what it is; and what is no mapping is for `parse` to refuse.
        if isinstance(given, Mapping) and given.get("start") is None:
            filled[section] = {**values, **given}
    return filled
