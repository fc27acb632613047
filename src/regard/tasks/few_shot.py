"""Few-shot classification (Vinyals et al. 2016): which of the few labelled classes does an image belong to?

loss = − Σ over the images to classify of log p(class | the labelled images, the image)

Two baselines are measured beside it on the same episodes: the class of the nearest labelled image, by the cosine of the
model's own embeddings (`nearest`), and by the distance of pixels (`nearest_pixels`).
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.core.batch import Batch
from regard.core.directions import Direction
from regard.core.measured import Measured
from regard.tasks._task import Task


class FewShot(Task):
    """Loss per classified image. `shots` of the `images` [B,I,C,H,W] come first, with `labels` [B,I]."""

    unit = "images"
    directions: ClassVar[dict[str, Direction]] = {
        "loss": "lower", "accuracy": "higher", "nearest": "higher", "nearest_pixels": "higher",
    }  # fmt: skip

    def __init__(self, shots: int, *, label_smoothing: float = 0.0) -> None:
        self.shots, self.label_smoothing = shots, label_smoothing
        """The number of labelled images of an episode, of all classes."""

    def count(self, batch: Batch) -> int:
        return batch["labels"][:, self.shots :].numel()

    def loss(self, model: Any, batch: Batch) -> Tensor:
        known, asked = self._labels(batch)
        logits = model(batch["images"], known).logits.float().flatten(0, 1)
        return F.cross_entropy(logits, asked.flatten(), reduction="sum", label_smoothing=self.label_smoothing)

    def measure(self, model: Any, batch: Batch) -> Measured:
        known, asked = self._labels(batch)
        with torch.no_grad():
            output = model(batch["images"], known)
        logits = output.logits.double().flatten(0, 1)
        answers = {
            "accuracy": output.logits.argmax(-1),
            "nearest": self._nearest(F.normalize(output.pooled.float(), dim=-1), known),
            "nearest_pixels": self._nearest(batch["images"].flatten(2), known),
        }
        sums = {name: float((answer == asked).sum()) for name, answer in answers.items()}
        sums["loss"] = F.cross_entropy(logits, asked.flatten(), reduction="sum").item()
        return Measured(sums, dict.fromkeys(sums, asked.numel()))

    def _labels(self, batch: Batch) -> tuple[Tensor, Tensor]:
        labels = batch["labels"]
        return labels[:, : self.shots], labels[:, self.shots :]

    def _nearest(self, vectors_BID: Tensor, known_BS: Tensor) -> Tensor:
        """The class of the nearest labelled image [B,Q]."""
        distances_BQS = torch.cdist(vectors_BID[:, self.shots :], vectors_BID[:, : self.shots])
        return known_BS.gather(1, distances_BQS.argmin(-1))
