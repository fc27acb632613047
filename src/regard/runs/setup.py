"""What the training of one task differs in. A file in `jobs/` overrides what is not usual; `Job` does the rest.

The methods are called in the order in which they stand here: first those that only read the recipe, then those that
read the data, then those that use what was prepared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field
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
    split_digits: bool = Field(False, description="for bpe: every digit is a token of its own")


@dataclass(frozen=True)
class NeededLength:
    """How many tokens the model must be able to read, and how to say so when it cannot."""

    tokens: int
    problem: str
    got: str
    field: str
    sets_max_len: bool = True
    """A new model gets this as its `max_len`, where the recipe gives none."""


class Setup:
    """Made from a recipe and, where it names one, the model to start from."""

    Data: ClassVar[type[Config]]
    """The `data` section of its recipes."""
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """What its recipes may leave out, by section: {"model": {"name": …}, "training": {…}}."""
    special_tokens: ClassVar[str | None] = None
    """"bert": a vocabulary that is learnt has [CLS], [SEP] and [MASK]."""
    offers: tuple[str, ...] = ()
    """What the held-out data has for evaluators, by the names in `HeldOut`."""

    def __init__(self, recipe: Recipe, start: StoredModel | None) -> None:
        self.recipe, self.data, self.start = recipe, recipe.data, start
        self.tokenizer: Tokenizer | None = None
        """Text to ids, once it is known; `target_tokenizer` is that of what is written."""
        self.target_tokenizer: Tokenizer | None = None

    # What the recipe says

    @property
    def model_name(self) -> str:
        name = self.start.name if self.start is not None else self.recipe.model.name
        assert name is not None, "a recipe names its model, or the one to start from"
        return name

    @property
    def validates(self) -> bool:
        """Whether there is anything to validate with."""
        return getattr(self.data, "validation", None) is not None or getattr(self.data, "validation_share", 0) > 0

    def task(self) -> Task:
        """From a batch to a loss."""
        raise NotImplementedError

    def files(self) -> list[Path]:
        """What the data is made from; a run goes on only while these are the same."""
        return []

    def fixed_options(self) -> dict[str, Any]:
        """Options of the model that the task decides, whatever the data: its head."""
        return {}

    def needed_length(self) -> NeededLength | None:
        """How long a text the model must be able to read; None: no matter."""
        return None

    def usual_evaluators(self) -> list[Evaluator]:
        """What a recipe that names no evaluators gets besides the task's own numbers."""
        return []

    # What is read from the data

    def texts(self) -> dict[str, Callable[[], Iterable[str]]]:
        """What vocabularies are learnt from: {"source": texts}, and "target" where it has its own; none: no text."""
        return {}

    def encode(self, folder: Path, say: Say) -> tuple[Any, Any]:
        """The training set and the held-out set (None: there is none), as `batches` takes them."""
        raise NotImplementedError

    # What was prepared

    def sizes(self) -> dict[str, Any]:
        """Options of the model that the data decides, besides the sizes of vocabularies."""
        return {}

    def batches(self, examples: Any, *, shuffle: bool) -> TrainingData:
        """A data set, batch by batch."""
        raise NotImplementedError

    def experience(self, model: nn.Module) -> TrainingData | None:
        """Training data that the model itself makes, by acting in an environment; None: it is the training set."""
        return None

    def extra(self) -> dict[str, Any]:
        """What is stored with the model besides: the names of classes, how images are prepared."""
        return {}

    def material(self) -> dict[str, Any]:
        """What the held-out data has for evaluators: a value for each name in `offers`, and more."""
        return {}


class ClsSetup(Setup):
    """A task whose rows of text carry [CLS] and [SEP], where its model reads them that way."""

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
        """Refuse a vocabulary without the special tokens that rows are made with."""
        if reads_cls(self.model_name):
            for name in ("cls", "sep"):
                tokenizer.specials.need(name)

    def batches(self, examples: Any, *, shuffle: bool) -> TrainingData:
        """Rows of like length together, within the recipe's tokens and the data's rows a batch."""
        training, most = self.recipe.training, getattr(self.data, "max_rows", None)
        budget = training.tokens_per_batch
        return RowBatches(examples, tokens_per_batch=budget, seed=training.seed, max_rows=most, shuffle=shuffle)

    def needed_length(self) -> NeededLength:
        tokens: int = self.data.max_len  # type: ignore[attr-defined]
        return NeededLength(tokens, "rows are longer than the model allows", f"data.max_len {tokens}", "data.max_len")
