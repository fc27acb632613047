"""Two language models in opposite directions on running text, over words read by their characters."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import Field

from regard.core.errors import ConfigError
from regard.data import arrays, running_text
from regard.data.running_text import RunningText, TokenText, encode_text
from regard.data.spelled_windows import SpelledWindows
from regard.data.text.spelling import SpellingTokenizer
from regard.evaluation.evaluators import Evaluator
from regard.models import reads_characters
from regard.runs.jobs._files import rows_per_batch
from regard.runs.jobs.language_model import LanguageModelData, LanguageModelJob
from regard.runs.recipe import Recipe
from regard.runs.setup import NeededLength, Say, TokenizerConfig, as_usual
from regard.store import StoredModel
from regard.tasks.bidirectional_lm import BidirectionalLm

_WORDS = TokenizerConfig(kind="space", vocab_size=20_000)


class BidirectionalLmData(LanguageModelData):
    tokenizer: Annotated[TokenizerConfig, as_usual(_WORDS)] = _WORDS
    context: int = Field(32, gt=1, description="words of a window; states are not carried from one window to the next")
    streams: None = Field(None, description="not for this task")


class BidirectionalLmJob(LanguageModelJob):
    Data = BidirectionalLmData
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "model": {"name": "elmo"},
        "training": {"label_smoothing": 0.0},
    }
    offers = ()

    def __init__(self, recipe: Recipe, start: StoredModel | None) -> None:
        super().__init__(recipe, start)
        if not reads_characters(self.model_name):
            raise ConfigError("this task needs a model that reads characters", got=self.model_name, expected="elmo")

    def task(self) -> BidirectionalLm:  # type: ignore[override]
        return BidirectionalLm(label_smoothing=self.recipe.training.label_smoothing)

    def needed_length(self) -> NeededLength | None:  # type: ignore[override]
        return None

    def usual_evaluators(self) -> list[Evaluator]:
        return []

    def batches(self, examples: TokenText, *, shuffle: bool) -> SpelledWindows:
        training, context = self.recipe.training, self.data.context
        assert isinstance(self.tokenizer, SpellingTokenizer)
        rows = rows_per_batch(training, context)
        seed = training.seed
        return SpelledWindows(examples.tokens, self.tokenizer, context=context, rows=rows, seed=seed, shuffle=shuffle)

    def _encoded(self, text: RunningText, place: Path, say: Say) -> TokenText:
        # Only ids of the vocabulary are stored: a word outside it is <unk> here, as a label and by its spelling.
        assert isinstance(self.tokenizer, SpellingTokenizer)
        if not arrays.holds(place, running_text.KIND):
            made = encode_text(text, self.tokenizer.closed, place, ends=self.data.documents != "none")
            say(f"{place.name}: {made.characters:,} characters, {len(made.tokens):,} words")
        return TokenText.open(place)
