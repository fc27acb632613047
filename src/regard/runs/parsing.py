"""Reads recipes from files and mappings, each with its task's own `data` section and defaults."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import create_model

from regard.core import config as configs
from regard.core import lookup
from regard.core.errors import UnknownName
from regard.runs.recipe import Recipe

JOBS = "regard.runs.jobs"


def parse_recipe(data: Mapping[str, Any], where: str = "recipe") -> Recipe:
    """The recipe, with the task's defaults for what it leaves out."""
    task = data.get("task", "translation")
    if task not in lookup.names(JOBS):
        raise UnknownName(f"task in {where}", task, lookup.names(JOBS))
    return _recipe_of(task).parse(_with_defaults(data, lookup.find(JOBS, task).defaults), where)


def read_recipe(path: str | Path, changes: Mapping[str, str] | None = None) -> Recipe:
    """The recipe in a file, with changes such as {"training.lr": "1e-3"} applied."""
    return parse_recipe(configs.override(configs.read_config(path), changes or {}), str(path))


@functools.cache
def _recipe_of(task: str) -> type[Recipe]:
    return create_model("Recipe", __base__=Recipe, __module__=__name__, data=(lookup.find(JOBS, task).Data, ...))


def _with_defaults(data: Mapping[str, Any], defaults: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    filled = dict(data)
    for section, values in defaults.items():
        given = filled.get(section, {})
        # A model to start from needs no default name or size; `parse` will refuse a section that is not a mapping.
        if isinstance(given, Mapping) and given.get("start") is None:
            filled[section] = {**values, **given}
    return filled
