"""One training job. It does what all tasks share; the task's `Setup` does the rest.

A run makes the job, which checks all that can be checked without reading data, asks for the files that it depends on,
and then calls `prepare`. The result holds a configuration, batches, and functions to validate and store a model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, cast, get_args

from pydantic import create_model
from torch import nn

from regard.core import lookup
from regard.core.config import Config
from regard.core.contracts import Fitted, Primed
from regard.core.directions import Direction
from regard.core.errors import ConfigError, DataError
from regard.core.measured import Measured
from regard.core.paths import expand_path, here
from regard.core.weights import brief
from regard.data.text import NoText, Tokenizer, make_tokenizer
from regard.data.text.spelling import SpellingTokenizer
from regard.evaluation.evaluators import directions_of, evaluators_for, make_evaluator
from regard.evaluation.held_out import HeldOut
from regard.models import config_of, reads_characters, reads_in_order
from regard.pipelines import card, make_pipeline
from regard.runs.embeddings import use_embeddings
from regard.runs.recipe import Recipe
from regard.runs.setup import ClsSetup, Say, Setup
from regard.store import StoredModel
from regard.tasks._task import Task
from regard.training.trained import Data
from regard.views.labels import visible_line

JOBS = "regard.runs.jobs"
MODELS = "regard.models"


@dataclass(frozen=True)
class Prepared:
    """Everything that a run needs to make a model, train it on the batches, validate it and store it."""

    model_name: str
    config: Config
    task: Task
    batches: Callable[[nn.Module], Data]
    validate: Callable[[nn.Module], dict[str, float]] | None
    check_held_out: Callable[[nn.Module], None]
    """Refuse held-out data that a validation, hours later, would refuse."""
    direction: Direction
    """Whether `training.metric` should be high or low."""
    stored: Callable[[nn.Module], StoredModel]
    prime: Callable[[nn.Module], None]
    """Give a new model what it takes from the training data before the first update."""
    initialise: Callable[[nn.Module], list[str]]
    """Fill parts of a new model with weights from elsewhere, such as word vectors; returns lines that say so."""


class Job:
    def __init__(self, recipe: Recipe, start: StoredModel | None, *, evaluating: bool = False) -> None:
        self.recipe, self.start = recipe, start
        self.setup: Setup = lookup.find(JOBS, recipe.task)(recipe, start)
        self.setup.evaluating = evaluating
        self.task = self.setup.task()
        self._check_model()
        named = recipe.evaluation
        chosen = self.setup.usual_evaluators() if named is None else [make_evaluator(choice) for choice in named]
        self.evaluators = evaluators_for(recipe.training.metric, chosen, self.task.directions, self.setup.offers)
        self.directions = {**self.task.directions, **directions_of(self.evaluators)}

    def files(self) -> list[Path]:
        """The files that the data is made from; a run resumes only if they are unchanged."""
        return self.setup.files()

    def prepare(self, folder: Path, say: Say, show: Say | None = None) -> Prepared:
        """Make the vocabulary and encode the data into the folder, or open the results of an earlier start of the run.

        `show` gets a few held-out inputs with the model's outputs, at each validation.
        """
        setup = self.setup
        setup.tokenizer, setup.target_tokenizer = self._tokenizers(folder)
        if setup.tokenizer is not None and reads_characters(setup.model_name, self._partial):
            setup.tokenizer = setup.target_tokenizer = SpellingTokenizer(setup.tokenizer)
        if isinstance(setup, ClsSetup) and setup.tokenizer is not None:
            setup.check_special_tokens(setup.tokenizer)
        train, held_out = setup.encode(folder, say)
        config = self._config({**self._vocabulary_sizes(), **setup.sizes()})

        def stored(model: nn.Module) -> StoredModel:
            made = StoredModel(
                self.recipe.task,
                setup.model_name,
                cast(Config, model.config) if isinstance(model, Fitted) else config,  # counts determine sizes
                model,
                setup.tokenizer,
                setup.target_tokenizer,
                self.recipe.search,
                extra=setup.extra(),
            )
            made.card = card(made)
            return made

        return Prepared(
            setup.model_name,
            config,
            self.task,
            lambda model: setup.experience(model) or setup.batches(train, shuffle=not reads_in_order(setup.model_name)),
            None if not setup.validates else lambda model: self._validate(model, held_out, stored, show),
            lambda model: self._check_held_out(model, held_out, stored),
            self.directions[self.recipe.training.metric],
            stored,
            lambda model: self._prime(model, train),
            self._initialise,
        )

    def _initialise(self, model: nn.Module) -> list[str]:
        wanted, lines = self.recipe.model.embeddings, self.setup.initialise(model)
        if wanted is not None:
            lines += use_embeddings(model, self.setup.tokenizer, self.setup.target_tokenizer, wanted)
        return lines

    def _prime(self, model: nn.Module, train: Any) -> None:
        if isinstance(model, Primed) and self.setup.tokenizer is not None:
            model.prime(self.setup.batches(train, shuffle=False).epoch(0), self.setup.tokenizer.pieces())

    def _validate(
        self, model: nn.Module, held_out: Any, stored: Callable[[nn.Module], StoredModel], show: Say | None
    ) -> dict[str, float]:
        """Metrics on the held-out data, "loss" among them; they do not depend on batching."""
        measured = Measured()
        for batch in self.setup.batches(held_out, shuffle=False).epoch(0):
            measured.add(self.task.measure(model, batch))
        numbers = self.task.summary(measured)
        seen = HeldOut(measured, self.setup.material(), lambda: stored(model))
        for evaluator in self.evaluators:
            numbers |= evaluator(seen)
        if show is not None and {"inputs", "references"} <= set(self.setup.offers):
            for sample in seen.samples():
                show(f"  source     {_short(sample.input)}\n  reference  {_short(sample.reference)}\n"
                     f"  written    {_short(sample.written)}\n")  # fmt: skip
        return numbers

    def _check_held_out(self, model: nn.Module, held_out: Any, stored: Callable[[nn.Module], StoredModel]) -> None:
        if not self.setup.validates:
            return
        self.setup.batches(held_out, shuffle=False)
        if any("inputs" in evaluator.needs for evaluator in self.evaluators):
            make_pipeline(stored(model)).check_inputs(self.setup.material()["inputs"])

    def _check_model(self) -> None:
        """Report a misspelt option, or a length beyond the model's limit, before anything is prepared."""
        model, wanted = lookup.find(MODELS, self.setup.model_name), self.recipe.model
        if self.start is not None and (wanted.size is not None or wanted.name not in (None, self.start.name)):
            raise ConfigError(
                "model.start already sets the name and the size of the model",
                got=f"model.start {wanted.start} ({self.start.name}), name {wanted.name}, size {wanted.size}",
                remedy="Leave model.name and model.size out.",
            )
        if (head := self.setup.fixed_options().get("head")) is not None and head not in _heads(self.setup.model_name):
            able = [name for name in lookup.names(MODELS) if head in _heads(name)]
            raise ConfigError(
                f"the model {self.setup.model_name} cannot be trained for {self.recipe.task.replace('_', ' ')}",
                expected=f"model.name to be {' or '.join(able)}",
            )
        # Fields that only the data determines, such as the size of a vocabulary, may still be missing.
        missing = {name: (Any, None) for name, field in model.Config.model_fields.items() if field.is_required()}
        partial = create_model(model.Config.__name__, __base__=model.Config, **cast(Any, missing))
        self._partial = self._config({}, kind=cast(type[Config], partial))
        self._check_length(self._partial)

    def _config(self, sizes: Mapping[str, Any], *, kind: type[Config] | None = None) -> Config:
        """A named size or the model to start from, then the recipe's options, then what task and data determine."""
        before = self.start.config.model_dump() if self.start is not None else {}
        options = {**before, **self.recipe.model.options, **self.setup.fixed_options(), **self._max_len(), **sizes}
        size = self.recipe.model.size
        return config_of(self.setup.model_name, options, size=size, where="model.options", kind=kind)

    def _max_len(self) -> dict[str, int]:
        needed = self.setup.needed_length()
        fields = lookup.find(MODELS, self.setup.model_name).Config.model_fields
        given = self.start is not None or "max_len" in self.recipe.model.options or "max_len" not in fields
        return {} if needed is None or given or not needed.sets_max_len else {"max_len": needed.tokens}

    def _check_length(self, config: Config) -> None:
        needed = self.setup.needed_length()
        limit = getattr(lookup.find(MODELS, self.setup.model_name), "longest_of", lambda _: None)(config)
        if needed is not None and limit is not None and needed.tokens > limit:
            raise ConfigError(
                needed.problem,
                got=needed.got,
                expected=f"at most max_len {limit}",
                remedy=f"Lower {needed.field}, or raise max_len in model.options.",
            )

    def _vocabulary_sizes(self) -> dict[str, int]:
        """The sizes of vocabularies; those of a model to start from are in its configuration."""
        source, target = self.setup.tokenizer, self.setup.target_tokenizer
        if source is None or target is None or (self.start is not None and source is self.start.source_tokenizer):
            return {}
        known = lookup.find(MODELS, self.setup.model_name).Config.model_fields
        sizes = {
            "vocab_size": target.vocab_size,
            "source_vocab": source.vocab_size,
            "target_vocab": target.vocab_size,
        }
        return {name: size for name, size in sizes.items() if name in known}

    def _tokenizers(self, folder: Path) -> tuple[Tokenizer | None, Tokenizer | None]:
        """The tokenizers of the model to start from; else those that the run made before, or makes from the texts."""
        start, texts = self.start, self.setup.texts()
        if start is not None and start.source_tokenizer is not None and start.target_tokenizer is not None:
            return start.source_tokenizer, start.target_tokenizer
        if not texts:
            return None, None
        made = {}
        for side, read_texts in texts.items():
            place = folder / ("tokenizer.json" if side == "source" else f"{side}_tokenizer.json")
            if not place.exists():
                # The tokenizer library reads the texts in another thread.
                self._learn(side, here(chain(read_texts(), self._model_words()))).save(place)
            made[side] = Tokenizer.load(place)
        first = next(iter(made.values()))
        return made.get("source", first), made.get("target", first)

    def _training_files(self) -> list[Path]:
        """Those files of the data that its section `train` names."""
        named = set(_texts_in(self.setup.data.model_dump().get("train")))
        every = self.setup.files()
        return [path for path in every if path in {expand_path(text) for text in named}] or every

    def _model_words(self) -> list[str]:
        """The words that the model must know whether the texts hold them or not, such as those of a lexicon."""
        known = getattr(lookup.find(MODELS, self.setup.model_name), "needed_words", None)
        return [] if known is None else known(self.recipe.model.options)

    def _learn(self, side: str, texts: Any) -> Tokenizer:
        wanted = self.setup.tokenizer_config(side)
        options: dict[str, Any] = wanted.model_dump(include={"vocab_size", "lowercase"})
        options["min_count"] = wanted.min_count
        if wanted.split_digits:
            options["split_digits"] = True
        if self.setup.special_tokens is not None:
            options["marks"] = self.setup.special_tokens
        try:
            return make_tokenizer(wanted.kind, texts, **options)
        except NoText as error:
            names = brief([str(path) for path in self._training_files()])
            least = wanted.min_count or 1
            often = f" in which a word comes {least} times (min_count)" if least > 1 else ""
            raise DataError(f"{names}: {error.what}", remedy=f"Check that they hold text{often}.") from None


def _texts_in(value: Any) -> Iterator[str]:
    """The texts in plain data."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (Mapping, list, tuple)):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from _texts_in(part)


def _heads(model: str) -> tuple[str, ...]:
    """The heads that a model can have."""
    field = lookup.find(MODELS, model).Config.model_fields.get("head")
    return () if field is None else get_args(field.annotation)


def _short(text: str, most: int = 200) -> str:
    shown = visible_line(text)
    return shown if len(shown) <= most else shown[: most - 1] + "…"
