"""The validation metrics of a trained model."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.core import config as configs
from regard.core.errors import UsageError
from regard.core.paths import relative_to
from regard.runs.job import Job
from regard.runs.origin import origins
from regard.runs.parsing import parse_recipe
from regard.runs.recipe import Recipe
from regard.store import StoredModel, load_model


def validate(
    folder: str | Path, *, recipe: str | Path | None = None, changes: Mapping[str, str] | None = None
) -> dict[str, float]:
    """Validate by the recipe that the model was trained with, or by another recipe, with changes."""
    place = Path(recipe) if recipe is not None else Path(folder) / "recipe.json"
    stored = load_model(Path(folder))
    if not place.is_file():
        raise UsageError(
            f"{folder} has no recipe to validate it by",
            remedy="Give --recipe RECIPE.yaml, or --source and --reference for a translation model.",
        )
    data = {**_without_nulls(configs.read_config(place)), "model": {"start": str(folder)}}
    with relative_to(place.absolute().parent, *origins(Path(folder))):
        return _validated(parse_recipe(configs.override(data, changes or {}), str(place)), stored)


def _validated(recipe: Recipe, stored: StoredModel) -> dict[str, float]:
    job = Job(recipe, stored)
    with tempfile.TemporaryDirectory() as temporary:
        prepared = job.prepare(Path(temporary), lambda _: None)
        if prepared.validate is None:
            raise UsageError("the recipe has no validation data", remedy="Name it: --data.validation …")
        return prepared.validate(stored.model.eval())


def _without_nulls(data: Any) -> Any:
    """Remove null values, which a stored recipe holds for everything that was left out."""
    if not isinstance(data, dict):
        return data
    return {key: _without_nulls(value) for key, value in data.items() if value is not None}
