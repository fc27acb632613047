"""One training run in one folder: prepare the data, train, keep the best.

What is trained, and on what, is a job (`regard/jobs/`). The resolved recipe and sums of the data files are kept in the
folder, and it goes on only with what it was begun with.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import torch
from torch import nn

from regard import folder as folders
from regard.core import config as configs
from regard.core import lookup, manifest, weights
from regard.core.errors import ConfigError, DataError, WeightsError
from regard.folder import ModelFolder
from regard.jobs._job import Job, model_name
from regard.models import make_model
from regard.recipe import JOBS, Recipe, differences, filled_in
from regard.training import checkpoint
from regard.training.engine import Engine

# How long a run goes on and how often it says so may change between its parts; what it computes may not.
_MAY_CHANGE = {f"training.{name}" for name in ("max_steps", "max_epochs", "patience", "log_every", "checkpoint_every")}


class Run:
    """One training run in one folder."""

    def __init__(self, recipe: Recipe, out: Path, *, quiet: bool = False) -> None:
        self.recipe, self.out, self.quiet = recipe, out, quiet

    def train(self) -> Path:
        """Prepare, train, average and save; the folder then holds the finished model."""
        start = folders.load(filled_in(self.recipe.model.start)) if self.recipe.model.start else None
        job: Job = lookup.find(JOBS, self.recipe.task)(self.recipe, start)
        job.model_config()  # a misspelt option is told before anything is prepared
        self._claim(job)
        if start is not None and _asks_for_a_tokenizer(self.recipe) and start.source_tokenizer is not None:
            self._say("data.tokenizer is not used: the model to start from has its own")
        job.prepare(self.out / "data", self._say)
        torch.manual_seed(self.recipe.training.seed)
        model = make_model(model_name(self.recipe, start), job.model_config())
        if start is not None:
            self._say(take_over(model, start))
        engine = Engine(
            model,
            job.task,
            job.loader(),
            self.recipe.training,
            self.out,
            validate=job.validate if job.validates else None,
            on_best=lambda model: folders.save(self.out, job.stored(model)),
            quiet=self.quiet,
        )
        progress = engine.run()
        if not job.validates:
            folders.save(self.out, job.stored(model))
        elif self.recipe.training.average > 1 and progress.validated:
            self._average(job, model, progress.validated, progress.best)
        return self.out

    def _claim(self, job: Job) -> None:
        """Begin a folder, or go on in one that was begun with the same recipe."""
        known = self.out / "recipe.json"
        if known.exists():
            before = Recipe.parse(configs.read(known), str(known))
            changed = [text for name, text in differences(before, self.recipe).items() if name not in _MAY_CHANGE]
            if changed and checkpoint.listing(self.out / "checkpoints"):
                raise ConfigError(
                    f"{self.out} holds a run of another recipe",
                    got=", ".join(changed),
                    remedy="Give another --out, or remove the folder.",
                )
            if changed:  # nothing was trained yet: only the prepared data has to go
                shutil.rmtree(self.out / "data", ignore_errors=True)
        self._check_files(job)
        self.out.mkdir(parents=True, exist_ok=True)
        with weights.replacing(known) as file:
            file.write(configs.dump(self.recipe).encode())

    def _check_files(self, job: Job) -> None:
        """Data that was prepared from other contents of the same files is prepared again, or refused."""
        paths = [*job.files(), *_parts(self.recipe.model.start)]
        sums = json.dumps({str(path): manifest.digest(path) for path in paths if path.is_file()}, indent=1)
        known = self.out / "data" / "inputs.json"
        if known.exists() and known.read_text() != sums:
            if checkpoint.listing(self.out / "checkpoints"):
                raise DataError(
                    "the training files are not those that this run began with",
                    remedy="Bring them back, or give another --out.",
                )
            shutil.rmtree(self.out / "data")
        known.parent.mkdir(parents=True, exist_ok=True)
        with weights.replacing(known) as file:
            file.write(sums.encode())

    def _average(self, job: Job, model: nn.Module, steps: list[int], best: float | None) -> None:
        """Average the last validated checkpoints; keep the average where validation likes it better than the best."""
        stored = [checkpoint.read(self.out / "checkpoints" / f"step-{step:08d}").model for step in steps]
        mean = {
            name: torch.stack([one[name].double() for one in stored]).mean(0).to(stored[0][name]) for name in stored[0]
        }
        weights.load_into(model, mean)
        value = job.validate(model.eval())[self.recipe.training.metric]
        sign = -1 if self.recipe.training.metric == "loss" else 1
        kept = best is None or sign * value > sign * best
        if kept:
            folders.save(self.out, job.stored(model))
        which = "average" if kept else "single best"
        self._say(f"average of {len(steps)} checkpoints: {value:.4f}, single best: {best}; kept the {which}")

    def _say(self, text: str) -> None:
        if not self.quiet:
            print(text, flush=True)


def _asks_for_a_tokenizer(recipe: Recipe) -> bool:
    """Whether the recipe says another one than the task's usual."""
    field = type(recipe.data).model_fields.get("tokenizer")
    return field is not None and getattr(recipe.data, "tokenizer", None) != field.get_default(call_default_factory=True)


def take_over(model: nn.Module, start: ModelFolder) -> str:
    """Give the model the weights of the one to start from; what only one of the two has is told.

    A head for another number of labels is another head. Any other weight of another shape is refused.
    """
    given, slots = start.model.state_dict(), model.state_dict()
    labels = getattr(start.config, "n_labels", None)
    other = [name for name in given if name in slots and given[name].shape != slots[name].shape]
    if bad := [name for name in other if given[name].shape[0] != labels]:
        raise WeightsError(
            "the model to start from has weights of another shape",
            got=weights.brief([f"{name} {list(given[name].shape)}, not {list(slots[name].shape)}" for name in bad]),
            remedy="Leave the sizes in model.options as they are there.",
        )
    # Weights from elsewhere may be views into a mapped file, turned ones among them; these are to be trained.
    plain = torch.contiguous_format
    taken = {name: tensor.clone(memory_format=plain) for name, tensor in given.items() if name not in other}
    new, unused = weights.load_into(model, taken, strict=False)
    parts = {"new": new, "left behind": [*unused, *other]}
    told = "; ".join(f"{what}: {weights.brief(names)}" for what, names in parts.items() if names)
    return f"starting from {start.name}, {len(slots) - len(new)} tensors taken over" + (f"; {told}" if told else "")


def _parts(start: str | None) -> list[Path]:
    """The files of a model to start from that decide what a run makes of it."""
    if start is None:
        return []
    folder = filled_in(start)
    return [folder / "config.json", *sorted(folder.glob("*.safetensors")), *sorted(folder.glob("*tokenizer.json"))]
