"""Word vectors from running text. The models are fitted, see `training/fitting.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import Field

from regard.core import lookup
from regard.core.config import Config
from regard.core.contracts import Fitted
from regard.core.errors import ConfigError
from regard.data import arrays, running_text
from regard.data.passages import Passages
from regard.data.running_text import Documents, RunningText, TokenText, encode_text
from regard.runs.jobs._files import Texts, paths, sources
from regard.runs.recipe import Recipe
from regard.runs.setup import Say, Setup, TokenizerConfig, as_usual
from regard.store import StoredModel
from regard.tasks.word_vectors import WordVectors

_PASSAGE = 200_000
_WORDS = TokenizerConfig(kind="word", vocab_size=1_000_000, min_count=5)


class WordVectorsData(Config):
    train: Texts
    tokenizer: Annotated[TokenizerConfig, as_usual(_WORDS)] = _WORDS
    documents: Documents = Field("none", description="where a document ends; windows do not cross its end")


class WordVectorsJob(Setup):
    Data = WordVectorsData
    unused = ("label_smoothing",)
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "model": {"name": "word2vec"},
        # Linear: the learning rate depends on the number of epochs, so a run cannot be resumed with another.
        "training": {"lr": 0.025, "max_epochs": 5, "schedule": "linear", "warmup": 0, "label_smoothing": 0.0},
    }
    data: WordVectorsData

    def __init__(self, recipe: Recipe, start: StoredModel | None) -> None:
        super().__init__(recipe, start)
        if not issubclass(lookup.find("regard.models", self.model_name), Fitted):
            raise ConfigError("this model does not learn word vectors", got=self.model_name, expected="word2vec, glove")
        self._check_trainable()
        if recipe.training.max_steps is not None:
            raise ConfigError("word vectors are trained in epochs", remedy="Set training.max_epochs, not max_steps.")

    def _check_trainable(self) -> None:
        """Refuse a model that consists of vectors alone, as from a file of another program."""
        wanted = self.recipe.model
        before = self.start.config.model_dump() if self.start is not None else {}
        if {**before, **wanted.options}.get("trained") is False:
            raise ConfigError(
                "a model that holds only vectors cannot be trained further",
                got=f"model.start {wanted.start}" if self.start is not None else "model.options.trained False",
                expected="a model that regard trained",
                remedy="Choose model.name, and give the vectors as model.embeddings with d_model in model.options.",
            )

    def task(self) -> WordVectors:
        return WordVectors()

    def files(self) -> list[Path]:
        return list(paths(self.data.train))

    def texts(self) -> dict[str, Callable[[], Iterable[str]]]:
        return {"source": lambda: (piece for piece in self._text.pieces() if piece is not None)}

    def encode(self, folder: Path, say: Say) -> tuple[TokenText, None]:
        assert self.tokenizer is not None
        place = folder / "train"
        if not arrays.holds(place, running_text.KIND):
            made = encode_text(self._text, self.tokenizer, place, ends=self.data.documents != "none")
            kept = len(self.tokenizer.whole_words())
            say(f"{place.name}: {len(made.tokens):,} words, {kept:,} different ones are kept")
        return TokenText.open(place), None

    def batches(self, examples: TokenText, *, shuffle: bool) -> Passages:
        return Passages(examples.tokens, length=_PASSAGE)

    @property
    def _text(self) -> RunningText:
        return RunningText(sources(self.data.train), self.data.documents)
