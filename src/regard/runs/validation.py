"""The validation metrics of a trained model."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from regard.core import config as configs
from regard.core.articles import with_article
from regard.core.errors import UsageError
from regard.core.measured import Measured
from regard.core.paths import relative_to
from regard.evaluation.graded import Graded, graded
from regard.evaluation.held_out import HeldOut
from regard.runs.job import Job
from regard.runs.origin import origins
from regard.runs.parsing import parse_recipe
from regard.runs.recipe import Recipe
from regard.store import StoredModel, load_model

T = TypeVar("T")
_WINDOW, _LONG = 1024, 2_000_000
"""Tokens of a window for a model without a length limit: for a neural model, and for a model that counts."""


def validate(
    folder: str | Path,
    *,
    recipe: str | Path | None = None,
    changes: Mapping[str, str] | None = None,
    text: str | Path | None = None,
) -> dict[str, float]:
    """Validate by the recipe that the model was trained with, or by another recipe, with changes.

    A language model may also be validated on a `text`, with or without a recipe.
    """
    return _with_job(folder, recipe, changes, text, _validated)


def grade(
    folder: str | Path,
    count: int,
    *,
    recipe: str | Path | None = None,
    changes: Mapping[str, str] | None = None,
    search: Mapping[str, Any] | None = None,
) -> list[Graded]:
    """`count` of the texts that the model generates for its held-out inputs, from the best to the worst."""
    if count < 1:
        raise UsageError("nothing to grade", got=count, expected="1 or more")
    return _with_job(folder, recipe, changes, None, lambda made, stored: _graded(made, stored, count, search or {}))


def _with_job(
    folder: str | Path,
    recipe: str | Path | None,
    changes: Mapping[str, str] | None,
    text: str | Path | None,
    use: Callable[[Recipe, StoredModel], T],
) -> T:
    place = Path(recipe) if recipe is not None else Path(folder) / "recipe.json"
    stored = load_model(Path(folder))
    _check_task(stored, text)
    if place.is_file():
        data = {**configs.read_config(place), "model": {"start": str(folder)}}
        if isinstance(data.get("data"), dict):  # else parsing says what is missing
            data["data"] = {**data["data"], **_as_data(text)}
    elif text is not None:
        data = {"task": stored.task, "model": {"start": str(folder)}, "data": _data_of(stored, text)}
    else:
        raise UsageError(
            f"{folder} has no recipe to validate it by",
            remedy="Give --source TEXT for a language model, --source and --reference for a translation model, or "
            "--recipe RECIPE.yaml.",
        )
    with relative_to(place.absolute().parent, *origins(Path(folder))):
        return use(parse_recipe(configs.override(data, changes or {}), str(place)), stored)


def _check_task(stored: StoredModel, text: str | Path | None) -> None:
    got = f"{with_article(stored.name)} for {stored.task.replace('_', ' ')}"
    if stored.task == "word_vectors":
        raise UsageError("word vectors are tested by questions on words", got=got, remedy="Give --suite words.")
    if text is not None and stored.task != "language_model":
        raise UsageError("--source alone is a text for a language model", got=got, remedy="Give --reference with it.")


def _as_data(text: str | Path | None) -> dict[str, Any]:
    """The text in place of all data of a recipe: the text of its training is not needed, and may be gone."""
    if text is None:
        return {}
    place = str(Path(text).absolute())
    return {"train": place, "validation": place, "validation_share": 0.0}


def _data_of(stored: StoredModel, text: str | Path) -> dict[str, Any]:
    """The data of a recipe that validates on a text, in windows of the model's length. If the model counts sentences,
    each line is a sentence."""
    longest = getattr(stored.model, "longest", None)
    lines = getattr(stored.model, "counts_sentences", False)
    shape = {"context": longest or (_LONG if lines else _WINDOW), "documents": "lines" if lines else "none"}
    return {**shape, **_as_data(text)}


def _validated(recipe: Recipe, stored: StoredModel) -> dict[str, float]:
    job = Job(recipe, stored, evaluating=True)
    with tempfile.TemporaryDirectory() as temporary:
        prepared = job.prepare(Path(temporary), lambda _: None)
        if prepared.validate is None:
            raise UsageError("the recipe has no validation data", remedy="Name it: --data.validation …")
        return prepared.validate(stored.model.eval())


def _graded(recipe: Recipe, stored: StoredModel, count: int, search: Mapping[str, Any]) -> list[Graded]:
    job = Job(recipe, stored, evaluating=True)
    if not {"inputs", "references"} <= set(job.setup.offers) or not job.setup.validates:
        got = f"{with_article(stored.name)} for {stored.task.replace('_', ' ')}"
        raise UsageError("only generated texts with references can be graded", got=got)
    with tempfile.TemporaryDirectory() as temporary:
        prepared = job.prepare(Path(temporary), lambda _: None)
        held_out = HeldOut(Measured(), job.setup.material(), lambda: prepared.stored(stored.model.eval()))
        names = held_out.material.get("names", held_out.material["inputs"])
        return graded(names, held_out.written(**search), held_out.references, count)
