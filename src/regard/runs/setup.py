"""What differs between the training of tasks. A file in `jobs/` overrides these defaults; `Job` does the rest.

The methods are called in the order in which they are defined here: first those that only read the recipe, then those
that read the data, then those that use what was prepared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from pydantic import AfterValidator, Field
from torch import nn

from regard.core.config import Config
from regard.core.errors import ConfigError
from regard.data.row_batches import RowBatches
from regard.data.text import Tokenizer
from regard.evaluation.evaluators import Evaluator
from regard.models import reads_cls
from regard.runs.recipe import Recipe
from regard.store import StoredModel
from regard.tasks._task import Task
from regard.training.trained import Data as TrainingData

Say = Callable[[str], None]


class TokenizerConfig(Config):
    """A vocabulary to learn."""

    kind: str = "bpe"
    vocab_size: int = Field(8000, gt=4)
    lowercase: bool = False
    min_count: int | None = Field(None, gt=0, description="rarer words (pairs, for bpe) are left out; None: as usual")
    split_digits: bool = Field(False, description="for bpe: every digit is a token")


def completed(given: TokenizerConfig, usual: TokenizerConfig) -> TokenizerConfig:
    """A recipe's tokenizer that does not give its kind is the task's usual one, but for what it does give."""
    if "kind" in given.model_fields_set:
        return given
    return usual.model_copy(update={name: getattr(given, name) for name in given.model_fields_set})


def as_usual(usual: TokenizerConfig) -> AfterValidator:
    """Complete a recipe's tokenizer when it is read."""
    return AfterValidator(lambda given: completed(given, usual))


@dataclass(frozen=True)
class NeededLength:
    """The number of tokens that the model must be able to read, and the error if it cannot."""

    tokens: int
    problem: str
    got: str
    field: str
    sets_max_len: bool = True
    """The `max_len` of a new model, if the recipe gives none."""


class Setup:
    """Made from a recipe and, if it names one, the model to start from."""

    Data: ClassVar[type[Config]]
    """The `data` section of its recipes."""
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """Defaults for its recipes, by section: {"model": {"name": …}, "training": {…}}."""
    special_tokens: ClassVar[str | None] = None
    """"bert": a learnt vocabulary has [CLS], [SEP] and [MASK]."""
    offers: tuple[str, ...] = ()
    """What the held-out data offers evaluators, by the names in `HeldOut`."""
    two_passes: ClassVar[bool] = False
    """Whether its task can run a batch twice (`training.r_drop`)."""
    from_scratch: ClassVar[bool] = True
    """Whether the network of a model to start from can be trained from scratch (`model.start_weights: false`)."""
    unused: ClassVar[tuple[str, ...]] = ()
    """Options of `training` that do nothing in this task; they are refused."""
    evaluating: bool = False
    """Whether the model to start from is evaluated as it is, and not trained."""

    def __init__(self, recipe: Recipe, start: StoredModel | None) -> None:
        self.recipe, self.data, self.start = recipe, recipe.data, start
        if recipe.training.r_drop and not self.two_passes:
            remedy = "Leave training.r_drop out; translation, parsing and captioning have it."
            raise ConfigError(f"the task {recipe.task!r} has no R-Drop", got=recipe.training.r_drop, remedy=remedy)
        if not recipe.model.start_weights and not self.from_scratch:
            remedy = "Leave model.start out, and give model.name and its options."
            raise ConfigError(f"the task {recipe.task!r} has no start_weights: false", got="a start", remedy=remedy)
        for name in self.unused:
            if value := getattr(recipe.training, name):
                remedy = f"Leave training.{name} out."
                raise ConfigError(f"training.{name} does nothing in the task {recipe.task!r}", got=value, remedy=remedy)
        self.tokenizer: Tokenizer | None = None
        """Text to ids, once it exists; `target_tokenizer` is the one of the target side."""
        self.target_tokenizer: Tokenizer | None = None

    # Read from the recipe

    @property
    def model_name(self) -> str:
        name = self.start.name if self.start is not None else self.recipe.model.name
        assert name is not None, "a recipe names its model, or the one to start from"
        return name

    @property
    def validates(self) -> bool:
        """Whether there is data for validation."""
        return getattr(self.data, "validation", None) is not None or getattr(self.data, "validation_share", 0) > 0

    def task(self) -> Task:
        """The task, which computes the loss of a batch."""
        raise NotImplementedError

    def files(self) -> list[Path]:
        """The files that the data is made from; a run resumes only if they are unchanged."""
        return []

    def tokenizer_config(self, side: str) -> TokenizerConfig:
        """The vocabulary to learn from the texts of a side ("source" or "target")."""
        wanted: TokenizerConfig = self.data.tokenizer  # type: ignore[attr-defined]
        return wanted

    def fixed_options(self) -> dict[str, Any]:
        """Model options that the task determines, whatever the data, such as its head."""
        return {}

    def needed_length(self) -> NeededLength | None:
        """The longest text that the model must be able to read; None: any."""
        return None

    def usual_evaluators(self) -> list[Evaluator]:
        """The evaluators of a recipe that names none, besides the task's own metrics."""
        return []

    # Read from the data

    def texts(self) -> dict[str, Callable[[], Iterable[str]]]:
        """The texts to learn vocabularies from: {"source": texts}, and "target" if it has its own; empty: no text."""
        return {}

    def encode(self, folder: Path, say: Say) -> tuple[Any, Any]:
        """The training set and the held-out set (None: there is none), as arguments of `batches`."""
        raise NotImplementedError

    # Use what was prepared

    def sizes(self) -> dict[str, Any]:
        """Model options that the data determines, besides the sizes of vocabularies."""
        return {}

    def batches(self, examples: Any, *, shuffle: bool) -> TrainingData:
        """The batches of a data set."""
        raise NotImplementedError

    def initialise(self, model: nn.Module) -> list[str]:
        """Fill parts of a new model with weights from elsewhere; return lines that say so."""
        return []

    def experience(self, model: nn.Module) -> TrainingData | None:
        """Training data that the model itself generates, by acting in an environment; None: use the training set."""
        return None

    def extra(self) -> dict[str, Any]:
        """Further settings to store with the model: class names, image preparation."""
        return {}

    def material(self) -> dict[str, Any]:
        """What the held-out data offers evaluators: a value for each name in `offers`, and more."""
        return {}


class ClsSetup(Setup):
    """A task whose rows of text have [CLS] and [SEP], if its model uses them."""

    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "model": {"name": "bert"},
        "training": {"label_smoothing": 0.0},
    }
    special_tokens = "bert"

    def __init__(self, recipe: Recipe, start: StoredModel | None) -> None:
        super().__init__(recipe, start)
        if start is None:
            return
        if start.source_tokenizer is None:
            remedy = "Put its tokenizer files into its folder."
            raise ConfigError("the model to start from has no tokenizer", remedy=remedy)
        self.check_special_tokens(start.source_tokenizer)

    def check_special_tokens(self, tokenizer: Tokenizer) -> None:
        """Refuse a vocabulary without the special tokens that rows need."""
        if reads_cls(self.model_name) and None in (tokenizer.specials.cls, tokenizer.specials.sep):
            began, kind = self.recipe.model.start, self.tokenizer_config("source").kind
            raise ConfigError(
                f"the model {self.model_name} reads [CLS] and [SEP], which the tokenizer does not have",
                got=f"the tokenizer of {began}" if began else f"data.tokenizer.kind {kind}",
                remedy="Start from another model." if began else "Set data.tokenizer.kind to wordpiece.",
            )

    def batches(self, examples: Any, *, shuffle: bool) -> TrainingData:
        """Batches of rows of similar length, within the recipe's limit of tokens and the data's limit of rows."""
        training = self.recipe.training
        most = getattr(self.data, "max_rows", None) or training.rows_per_batch
        budget = training.tokens_per_batch
        return RowBatches(examples, tokens_per_batch=budget, seed=training.seed, max_rows=most, shuffle=shuffle)

    def needed_length(self) -> NeededLength:
        tokens: int = self.data.max_len  # type: ignore[attr-defined]
        return NeededLength(tokens, "rows exceed the model's limit", f"data.max_len {tokens}", "data.max_len")
