"""Captions: the next word given the image and the words so far."""

from __future__ import annotations

from typing import Any

from regard.core.batch import Batch
from regard.core.output import Output
from regard.tasks.translation import Translation


class Naming(Translation):
    def run(self, model: Any, batch: Batch) -> Output:
        return model(batch["pixel_values"], batch["target"][:, :-1])
