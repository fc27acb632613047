"""One training run in one folder: prepare the data, train, keep the best model.

A `Job` defines what is trained, and on what. The resolved recipe and checksums of the data files are stored in the
folder, and the run resumes only with the same recipe and files.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import torch
from torch import nn

from regard.core import config as configs
from regard.core import manifest, weights
from regard.core.contracts import Fitted, FittedInEpochs
from regard.core.directions import better
from regard.core.errors import ConfigError, DataError, WeightsError
from regard.core.lines import malformed, malformed_note
from regard.core.paths import expand_path, relative_to
from regard.models import make_model
from regard.runs.embeddings import embedding_paths
from regard.runs.job import Job, Prepared
from regard.runs.leftovers import sweep
from regard.runs.lock import locked
from regard.runs.origin import write_origin
from regard.runs.parsing import parse_recipe
from regard.runs.recipe import Recipe, differences
from regard.store import StoredModel, load_model, save_model
from regard.training import checkpoint, flops
from regard.training.averaging import average_checkpoints
from regard.training.distributed import join_world
from regard.training.engine import Engine
from regard.training.fitting import fit_model
from regard.training.progress import Progress

# A resumed run may change how long it trains and how often it reports, but not what it computes.
_MAY_CHANGE = {f"training.{name}" for name in ("max_steps", "max_epochs", "patience", "log_every", "checkpoint_every")}
_HEAD = "output."
"""The prefix of last layers whose name does not say what they predict."""
_START_FILES = (
    "config.json", "generation_config.json", "preprocessor_config.json", "sentence_bert_config.json", "modules.json",
    "1_Pooling/config.json", "*tokenizer.json", "*tokenizer_config.json", "special_tokens_map.json",
    "added_tokens.json", "vocab.txt", "vocab.json", "merges.txt", "*.model", "*.spm", "*.safetensors",
    "*.safetensors.index.json",
)  # fmt: skip
"""The files that are read from a folder to start from."""


class Run:
    """One training run in one folder."""

    def __init__(self, recipe: Recipe, out: Path, *, folder: Path | None = None, quiet: bool = False) -> None:
        self.world = join_world()
        self.recipe, self.out, self.quiet = recipe, out, quiet or not self.world.first
        self.folder = (folder or Path()).absolute()
        """The recipe's folder; its paths may be relative to it."""

    def train(self) -> Path:
        """Prepare, train, average and save; the folder then holds the finished model.

        With several processes, the first prepares the data and writes, and the others open what it made."""
        with locked(self.out) if self.world.first else nullcontext(), relative_to(self.folder):
            if self.world.first:
                sweep(self.out)
            return self._train()

    def _train(self) -> Path:
        start = load_model(expand_path(self.recipe.model.start)) if self.recipe.model.start else None
        job = Job(self.recipe, start)
        if self.world.first:
            self._claim(job.files())
        if start is not None and _asks_for_a_tokenizer(self.recipe) and start.source_tokenizer is not None:
            self._say("data.tokenizer is not used: the model to start from has its own")
        if not self.world.first:
            self.world.wait()
        with malformed() as replaced:
            prepared = job.prepare(self.out / "data", self._say, None if self.quiet else _show)
        for path, count in replaced.items():
            self._say(malformed_note(path, count))
        if self.world.first:
            self.world.wait()
        torch.manual_seed(self.recipe.training.seed)
        model = make_model(prepared.model_name, prepared.config)
        if start is not None and self.recipe.model.start_weights:
            self._say(take_over(model, start))
        else:
            prepared.prime(model)
        for line in prepared.initialise(model):
            self._say(line)
        if not isinstance(model, Fitted):
            self._descend(model, prepared)
        elif self.world.first:
            self._fit(model, prepared)
        self.world.wait()
        return self.out

    def _fit(self, model: nn.Module, prepared: Prepared) -> None:
        """Fit a model that is not trained by gradients."""
        if not isinstance(model, FittedInEpochs) and (self.out / manifest.NAME).exists():
            self._say("this run is finished already; it is counted again")
        fit_model(model, prepared.batches(model), self.recipe.training, self.out, quiet=self.quiet)
        if prepared.validate is not None:
            numbers = prepared.validate(model.eval())
            self._say("  ".join(f"validation_{name} {value:.4g}" for name, value in numbers.items()))
        save_model(self.out, prepared.stored(model))

    def _descend(self, model: nn.Module, prepared: Prepared) -> None:
        prepared.check_held_out(model)
        engine = Engine(
            model,
            prepared.task,
            prepared.batches(model),
            self.recipe.training,
            self.out,
            validate=prepared.validate,
            direction=prepared.direction,
            on_best=lambda best: save_model(self.out, prepared.stored(best)),
            quiet=self.quiet,
            world=self.world,
        )
        progress = engine.run()
        if not self.world.first:
            return
        if progress.best is None:
            if prepared.validate is not None:
                self._say(f"{self.recipe.training.metric} was never a number in validation; kept the last weights")
            with engine.average.in_place_of(model):
                save_model(self.out, prepared.stored(model))
        if self.recipe.training.average > 1 and (progress.best is not None or prepared.validate is None):
            self._average(prepared, model, progress)
        self._note_flops(progress, prepared.task.unit)

    def _note_flops(self, progress: Progress, unit: str) -> None:
        """Add the FLOPs of the training to the model card."""
        spent, place = flops.total(progress), self.out / "README.md"
        if spent is None or not place.exists():
            return
        line = f"Training: {spent:.3g} FLOPs in {progress.step:,} updates with {progress.items:,} {unit}.\n"
        text = place.read_text(encoding="utf-8")
        if line not in text:
            manifest.update_manifest(self.out, place.name, f"{text}\n{line}".encode())

    def _claim(self, files: Sequence[Path]) -> None:
        """Start in a new folder, or resume in one that was started with the same recipe."""
        known = self.out / "recipe.json"
        if known.exists():
            before = parse_recipe(configs.read_config(known), str(known))
            changed = [
                text for name, text in differences(before, self.recipe).items() if name not in _may_change(self.recipe)
            ]
            if changed and self._has_trained():
                raise ConfigError(
                    f"{self.out} holds a run of another recipe",
                    got=", ".join(changed),
                    remedy="Give another --out, or remove the folder.",
                )
            if changed:  # nothing was trained yet, so only the prepared data must be removed
                shutil.rmtree(self.out / "data", ignore_errors=True)
        self._check_files(files)
        self.out.mkdir(parents=True, exist_ok=True)
        text = configs.dump(self.recipe).encode()
        if (self.out / manifest.NAME).exists():
            manifest.update_manifest(self.out, known.name, text)
        else:
            with weights.replacing(known) as file:
                file.write(text)
        write_origin(self.out, self.folder)

    def _has_trained(self) -> bool:
        """Whether the folder holds checkpoints or a finished model; models that count have no checkpoints."""
        return bool(checkpoint.listing(self.out / "checkpoints")) or (self.out / manifest.NAME).exists()

    def _check_files(self, files: Sequence[Path]) -> None:
        """If the contents of the data files have changed, prepare the data again, or refuse to resume."""
        paths = [*files, *_parts(self.recipe.model.start), *_vector_files(self.recipe)]
        sums = json.dumps({str(path): manifest.digest(path) for path in paths if path.is_file()}, indent=1)
        known = self.out / "data" / "inputs.json"
        # Moved files count as the same files.
        if known.exists() and _sums(known) != list(json.loads(sums).values()):
            if checkpoint.listing(self.out / "checkpoints"):
                raise DataError(
                    "the training files have changed since this run was started",
                    remedy="Restore them, or give another --out.",
                )
            shutil.rmtree(self.out / "data")
        known.parent.mkdir(parents=True, exist_ok=True)
        with weights.replacing(known) as file:
            file.write(sums.encode())

    def _average(self, prepared: Prepared, model: nn.Module, progress: Progress) -> None:
        """Average the last checkpoints; with validation, keep the average only if it is better."""
        averaged = average_checkpoints(self.out / "checkpoints", progress.validated, self._say)
        if averaged is None:
            instead = "last weights" if progress.best is None else "single best"
            self._say(f"there are fewer than two checkpoints to average; kept the {instead}")
            return
        mean, count = averaged
        weights.load_into(model, mean)
        if prepared.validate is None:
            self._say(f"kept the average of {count} checkpoints")
            save_model(self.out, prepared.stored(model))
            return
        value = prepared.validate(model.eval())[self.recipe.training.metric]
        kept = better(value, progress.best, prepared.direction)
        if kept:
            save_model(self.out, prepared.stored(model))
        which = "average" if kept else "single best"
        self._say(f"average of {count} checkpoints: {value:.4f}, single best: {progress.best}; kept the {which}")

    def _say(self, text: str) -> None:
        if not self.quiet:
            print(text, flush=True)


def _show(text: str) -> None:
    """Print beside the log, above its bar if it has one."""
    print(text, file=sys.stderr, flush=True)


def _sums(place: Path) -> list[str] | None:
    """The checksums in a file; None if it is damaged."""
    try:
        return list(json.loads(place.read_text()).values())
    except (ValueError, AttributeError):
        return None


def _asks_for_a_tokenizer(recipe: Recipe) -> bool:
    """Whether the recipe sets a tokenizer other than the task's default."""
    field = type(recipe.data).model_fields.get("tokenizer")
    return field is not None and getattr(recipe.data, "tokenizer", None) != field.get_default(call_default_factory=True)


def take_over(model: nn.Module, start: StoredModel) -> str:
    """Load the weights of the model to start from; return a line that names the tensors that only one model has.

    A head with another number of labels is not loaded, and keeps its initial values. The same holds for `output` if the
    two models have different heads (a language model and a classifier). Other differences in shape are refused.
    """
    given, slots = start.model.state_dict(), model.state_dict()
    heads = {getattr(config, "head", None) for config in (start.config, model.config)}
    other_head = [name for name in given if len(heads) > 1 and name in slots and name.startswith(_HEAD)]
    given = {name: tensor for name, tensor in given.items() if name not in other_head}
    labels = getattr(start.config, "n_labels", None)
    unlike = [name for name in given if name in slots and given[name].shape != slots[name].shape]
    if bad := [name for name in unlike if given[name].shape[0] != labels]:
        raise WeightsError(
            "the model to start from has weights of another shape",
            got=weights.brief([f"{name} {list(given[name].shape)}, not {list(slots[name].shape)}" for name in bad]),
            remedy="Use the sizes of that model in model.options.",
        )
    # These weights may be views into a mapped file, some of them transposed; training needs copies.
    plain = torch.contiguous_format
    taken = {name: tensor.clone(memory_format=plain) for name, tensor in given.items() if name not in unlike}
    new, unused = weights.load_into(model, taken, strict=False)
    parts = {"new": new, "not used": [*unused, *unlike, *other_head]}
    rest = "; ".join(f"{what}: {weights.brief(names)}" for what, names in parts.items() if names)
    return f"starting from {start.name}, {len(slots) - len(new)} tensors loaded" + (f"; {rest}" if rest else "")


def _may_change(recipe: Recipe) -> set[str]:
    """The recipe values that may change when a run resumes: those that do not affect the updates made so far."""
    fixed: set[str] = set()
    # The learning rate depends on the number of updates; that of word vectors does so with any schedule.
    if recipe.training.schedule in ("cosine", "linear") or recipe.task == "word_vectors":
        fixed |= {"training.max_steps", "training.max_epochs"}
    if recipe.training.average > 1:  # without validation, the regular checkpoints are averaged
        fixed.add("training.checkpoint_every")
    return _MAY_CHANGE - fixed


def _vector_files(recipe: Recipe) -> list[Path]:
    """The files of word vectors to start from."""
    return [part for path in embedding_paths(recipe.model.embeddings) for part in _vector_parts(path)]


def _vector_parts(path: Path) -> list[Path]:
    return [path] if path.is_file() else sorted(part for part in path.glob("*") if part.is_file())


def _parts(start: str | None) -> list[Path]:
    """The files of a model to start from that affect the run; a llama2.c checkpoint is one file."""
    if start is None:
        return []
    path = expand_path(start)
    if path.is_file():
        return [path, path.with_name("tokenizer.bin")]
    return [file for pattern in _START_FILES for file in sorted(path.glob(pattern))]
