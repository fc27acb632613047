"""What a loaded model can do: text or images in, results out. There is one file per task, with the task's name.

A pipeline declares its verbs (methods marked with `@verb`), an example command (`usage`) and the inputs it accepts.
"""

from __future__ import annotations

from dataclasses import replace

from regard.core import lookup
from regard.core.version import VERSION
from regard.data.text.spelling import SpellingTokenizer
from regard.models import reads_characters
from regard.pipelines._loaded import Loaded
from regard.store import StoredModel

__all__ = ["Loaded", "card", "make_pipeline", "pipeline_of", "verbs"]


def make_pipeline(stored: StoredModel) -> Loaded:
    """Load the model of a folder, with the verbs of its task."""
    if stored.source_tokenizer is not None and reads_characters(stored.name, stored.config):
        spelling = SpellingTokenizer(stored.source_tokenizer)
        stored = replace(stored, source_tokenizer=spelling, target_tokenizer=spelling)
    return pipeline_of(stored.task)(stored)


def pipeline_of(task: str) -> type[Loaded]:
    """The pipeline of a task."""
    pipeline: type[Loaded] = lookup.find(__name__, task)
    return pipeline


def verbs() -> dict[str, str]:
    """All verbs of all pipelines, and the kind of model that each needs."""
    every: dict[str, str] = {}
    for task in lookup.names(__name__):
        for name, needs in pipeline_of(task).verbs().items():
            every.setdefault(name, needs)
    return every


def card(stored: StoredModel) -> str:
    """A default model card, if nobody wrote one."""
    model = stored.model
    counted = list(model.parameters()) or model.buffers()  # a model that counts has no parameters to train
    count = sum(tensor.numel() for tensor in counted)
    return (
        f"# {stored.task} model\n\nA `{stored.name}` with {count:,} parameters, trained with regard "
        f"{VERSION}.\n\nUse it: `{pipeline_of(stored.task).usage_of(stored.extra)}`\n"
    )
