"""Captioning: predict the next word from the image and the words so far (teacher forcing).

A batch holds the images, as `pixel_values` [B,C,H,W] or as `features` [B,P,D] that the model's frozen encoder computed
before, and `target`, as in translation.
"""

from __future__ import annotations

from typing import Any

from regard.core.batch import Batch
from regard.core.output import Output
from regard.tasks.translation import Translation


class Captioning(Translation):
    """Loss per real word of the captions."""

    def run(self, model: Any, batch: Batch) -> Output:
        seen = {name: batch[name] for name in ("features", "pixel_values") if name in batch}
        output: Output = model(batch["target"][:, :-1], **seen, target_mask=batch["target_mask"][:, 1:])
        return output
