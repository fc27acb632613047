"""The lectures as a sequence of steps that run: what a lecture says, what is measured here, and whether it holds.

Each file in `steps/` is one step. It defines

    NUMBER, TITLE       its place in the sequence, and its heading
    LECTURE             what the lectures say, as paragraphs for a student
    COMMANDS            regard commands that do the same with real data
    run(stage)          trains small models, measures, and returns a `Told`
    TRIALS              the earlier results, if settings were changed after results had been seen
    FULL, full(stage)   if the step can also measure models of recipes: what this adds, and a function that does it

A step runs offline: its text is generated or embedded. Its models train in at most two minutes each, in the stage's
folder; a second run uses them again. `full` reads models that recipes have trained, and their data.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import torch

from regard.core import lookup
from regard.core.errors import DataError, UnknownName
from regard.data.text import make_tokenizer
from regard.models import config_of, make_model
from regard.pipelines import Loaded, make_pipeline
from regard.runs.parsing import parse_recipe
from regard.runs.run import Run
from regard.runs.validation import validate
from regard.store import StoredModel, load_model
from regard.views.result import Result

_STEPS = "regard.story.steps"
Verdict = Literal["holds", "holds in part", "does not hold here"]


@dataclass(frozen=True)
class Claim:
    """A sentence of the lectures, with what was measured."""

    says: str
    verdict: Verdict
    because: str
    """One sentence with the numbers that decide."""


@dataclass(frozen=True)
class Told:
    """What a step shows: pictures and tables, claims with their verdicts, and what follows from it."""

    result: Result
    claims: list[Claim]
    follows: str


@dataclass(frozen=True)
class Stage:
    """Where a step runs. `seeds` are for comparisons; `models` is the folder of models that recipes have trained."""

    folder: Path
    seeds: tuple[int, ...] = (1, 2, 3)
    say: Callable[[str], None] = field(default=lambda text: None, repr=False)
    models: Path = Path("out")

    def recipe_model(self, name: str, command: str = "") -> Loaded:
        """A model that a recipe has trained; `command` trains it, by default with the recipe of this name."""
        self.say(name)
        place = self.models / name
        if not place.is_dir():
            command = command or f"regard train recipes/{name}.yaml"
            raise DataError(f"there is no model {place}", remedy=f"Make it ({command}), or give --models FOLDER.")
        return make_pipeline(load_model(place))

    def train(self, name: str, recipe: Mapping[str, Any]) -> Loaded:
        """Train a model in the stage's folder and open it; a second call opens the trained model."""
        self.say(name)
        run = Run(parse_recipe(recipe), self.folder / name, quiet=True)
        return make_pipeline(load_model(run.train()))

    def validated(self, name: str) -> dict[str, float]:
        """The metrics of a model that was trained here, on the data that its recipe holds out."""
        return validate(self.folder / name)

    def untrained(self, name: str, options: Mapping[str, Any], lines: list[str], *, seed: int = 1) -> Loaded:
        """A language model with random weights and the words of these lines."""
        tokenizer = make_tokenizer("word", lines)
        config = config_of(name, {**options, "vocab_size": tokenizer.vocab_size})
        torch.manual_seed(seed)
        model = make_model(name, config).eval()
        return make_pipeline(StoredModel("language_model", name, config, model, tokenizer, tokenizer))

    def write_lines(self, name: str, lines: list[str]) -> str:
        """Write a text for a recipe; return its path. A file with the same content is not written again."""
        return self.write_bytes(name, "".join(line + "\n" for line in lines).encode())

    def write_bytes(self, name: str, content: bytes) -> str:
        """Write a file for a recipe, as `write_lines` does."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_bytes() != content:
            path.write_bytes(content)
        return str(path)


def all_steps() -> dict[str, ModuleType]:
    """All steps by name, in order."""
    modules = {name: importlib.import_module(f"{_STEPS}.{name}") for name in lookup.names(_STEPS)}
    return dict(sorted(modules.items(), key=lambda item: item[1].NUMBER))


def find_step(name: str) -> ModuleType:
    """A step by name or number."""
    every = all_steps()
    if name.isdecimal() and len(name) < 4:
        name = next((key for key, step in every.items() if int(name) == step.NUMBER), name)
    if name not in every:
        raise UnknownName("step", name, every)
    return every[name]
