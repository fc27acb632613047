"""Language modelling on running text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import Field, model_validator

from regard.core import lookup
from regard.core.config import Config
from regard.core.errors import ConfigError
from regard.data import arrays, running_text
from regard.data.running_text import Documents, RunningText, TokenText, encode_text
from regard.data.streams import Streams
from regard.data.windows import Windows
from regard.evaluation.evaluators import Evaluator, make_evaluator
from regard.models import reads_in_order
from regard.runs.jobs._files import Texts, paths, rows_per_batch, sources
from regard.runs.setup import NeededLength, Say, Setup, TokenizerConfig
from regard.tasks.language_model import LanguageModel

_HELD_OUT = 1024
_COUNTED = 1 << 20


class LanguageModelData(Config):
    train: Texts
    validation: Texts | None = None
    validation_share: float = Field(0.0, ge=0, lt=1, description="or this share of the training text, from its end")
    tokenizer: TokenizerConfig = TokenizerConfig()
    context: int = Field(256, gt=0, description="tokens that the model sees at once")
    streams: int | None = Field(
        None, gt=0, description="read the text in this many parallel streams; the model must be recurrent"
    )
    documents: Documents = Field("none", description="where a document ends and </s> is added")

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if self.validation is not None and self.validation_share:
            raise ValueError("give either validation or validation_share")
        return self


class LanguageModelJob(Setup):
    Data: ClassVar[type[LanguageModelData]] = LanguageModelData
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "model": {"name": "gpt2"},
        "training": {"label_smoothing": 0.0},
        "search": {"beam": 1},
    }
    offers: tuple[str, ...] = ("words", "characters")
    data: LanguageModelData

    def task(self) -> LanguageModel:
        carry = self.data.streams is not None
        if carry and not getattr(lookup.find("regard.models", self.model_name), "carries", False):
            raise ConfigError(
                "data.streams needs a model that carries its state",
                got=self.model_name,
                expected="a recurrent one: rnn or lstmn",
            )
        return LanguageModel(label_smoothing=self.recipe.training.label_smoothing, carry=carry)

    def files(self) -> list[Path]:
        return [*paths(self.data.train), *paths(self.data.validation)]

    def fixed_options(self) -> dict[str, Any]:
        # This holds whatever the task of the model to start from was.
        return {"head": "tokens"} if self.start is not None and hasattr(self.start.config, "head") else {}

    def needed_length(self) -> NeededLength:
        context = self.data.context
        problem = "the context is longer than the model's limit"
        return NeededLength(context, problem, f"data.context {context}", "data.context")

    def usual_evaluators(self) -> list[Evaluator]:
        return [make_evaluator("text_units")]

    def texts(self) -> dict[str, Callable[[], Iterable[str]]]:
        return {"source": lambda: (piece for piece in self._split[0].pieces() if piece is not None)}

    def encode(self, folder: Path, say: Say) -> tuple[TokenText, TokenText | None]:
        text, held_out = self._split
        train = self._encoded(text, folder / "train", say)
        self._held_out = self._encoded(held_out, folder / "validation", say) if self.validates else None
        return train, self._held_out

    def batches(self, examples: TokenText, *, shuffle: bool) -> Windows | Streams:
        training, context = self.recipe.training, self.data.context
        if self.data.streams is not None:
            # Held-out text is read as one stream, so that every token but the first is predicted from all before it.
            streams, context = (self.data.streams, context) if shuffle else (1, _HELD_OUT)
            if shuffle:
                self._check_streams(len(examples.tokens), streams)
            return Streams(examples.tokens, context=context, streams=streams)
        if reads_in_order(self.model_name):
            context = max(context, _COUNTED)  # each window begins like a sentence, so there should be few
        rows = rows_per_batch(training, context)
        return Windows(examples.tokens, context=context, rows=rows, seed=training.seed, shuffle=shuffle)

    def _check_streams(self, tokens: int, streams: int) -> None:
        """Refuse streams that are shorter than one window: no state would be carried."""
        context = self.data.context
        if (length := (tokens - 1) // streams) < context:
            raise ConfigError(
                f"data.streams is too large for a text of {tokens:,} tokens",
                got=f"{streams} streams of {length} tokens",
                expected=f"at least data.context, {context} tokens, in each",
                remedy=f"Use at most {max((tokens - 1) // context, 1)} streams, or a shorter context.",
            )

    def extra(self) -> dict[str, Any]:
        known = self.start.extra if self.start is not None else {}
        return {key: known[key] for key in ("tokens", "begin") if key in known}

    def material(self) -> dict[str, Any]:
        assert self._held_out is not None
        return {"words": self._held_out.words, "characters": self._held_out.characters}

    @cached_property
    def _split(self) -> tuple[RunningText, RunningText]:
        """The training text and the held-out text."""
        text = RunningText(sources(self.data.train), self.data.documents)
        if self.data.validation_share:
            return text.split(self.data.validation_share)
        return text, RunningText(sources(self.data.validation), self.data.documents)

    def _encoded(self, text: RunningText, place: Path, say: Say) -> TokenText:
        assert self.tokenizer is not None
        if not arrays.holds(place, running_text.KIND):
            made = encode_text(text, self.tokenizer, place, ends=self.data.documents != "none")
            say(f"{place.name}: {made.characters:,} characters, {len(made.tokens):,} tokens")
        return TokenText.open(place)
