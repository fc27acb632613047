"""Word vectors: a vector for each word, learnt from running text by the model's own `fit`."""

from __future__ import annotations

from typing import ClassVar

from regard.tasks._task import Task


class WordVectors(Task):
    """There is no loss of a batch: the models of this task are fitted. Their quality is measured by `--suite words`."""

    unit: ClassVar[str] = "words"
