"""What a job promises to the run, and what every job needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Protocol

from torch import nn

from regard.core.config import Config
from regard.core.errors import ConfigError
from regard.folder import ModelFolder
from regard.models import config_of
from regard.recipe import Recipe
from regard.training import engine
from regard.training.config import TrainingConfig

Say = Callable[[str], None]


class Job(Protocol):
    """`NAMEJob` of `jobs/NAME.py`, made from a recipe and, where it names one, the model to start from."""

    Data: ClassVar[type[Config]]
    """The `data` section of its recipes."""
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]]
    """What its recipes may leave out, by section: {"model": {"name": …}, "training": {…}}."""
    metrics: ClassVar[tuple[str, ...]]
    """What `validate` can give, and `training.metric` be."""

    def __init__(self, recipe: Recipe, start: ModelFolder | None) -> None: ...

    @property
    def task(self) -> engine.Task:
        """From a batch to a loss."""
        ...

    @property
    def validates(self) -> bool:
        """Whether there is anything to validate with."""
        ...

    def files(self) -> list[Path]:
        """What the data is made from; a run goes on only while these are the same."""
        ...

    def prepare(self, folder: Path, say: Say) -> None:
        """Make the vocabulary and encode the data into the folder, or open what an earlier part of the run made."""
        ...

    def model_config(self) -> Config:
        """The model's configuration. Before `prepare` the sizes that depend on the data are stand-ins."""
        ...

    def loader(self) -> engine.Data:
        """The training data, batch by batch."""
        ...

    def validate(self, model: nn.Module) -> dict[str, float]:
        """Numbers about the held-out data, "loss" among them; they do not depend on how it is batched."""
        ...

    def stored(self, model: nn.Module) -> ModelFolder:
        """What is kept of the finished model."""
        ...


def model_name(recipe: Recipe, start: ModelFolder | None) -> str:
    name = start.name if start is not None else recipe.model.name
    assert name is not None, "a recipe names its model, or the one to start from"
    return name


def model_config(recipe: Recipe, start: ModelFolder | None, **fixed: Any) -> Config:
    """A named size, or the model to start from; then the recipe's options; then what data and task fix."""
    wanted = recipe.model
    if start is not None and (wanted.size is not None or wanted.name not in (None, start.name)):
        raise ConfigError(
            "a model to start from has a name and a size already",
            got=f"model.start {wanted.start} ({start.name}), name {wanted.name}, size {wanted.size}",
            remedy="Leave model.name and model.size out.",
        )
    before = start.config.model_dump() if start is not None else {}
    options = {**before, **wanted.options, **fixed}
    return config_of(model_name(recipe, start), options, size=wanted.size, where="model.options")


def rows_per_batch(training: TrainingConfig, length: int) -> int:
    """How many examples of that many tokens make a batch."""
    return training.rows_per_batch or max(1, training.tokens_per_batch // length)
