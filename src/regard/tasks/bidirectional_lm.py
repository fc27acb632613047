"""Two language models in opposite directions (Peters et al. 2018).

loss = − ½ (Σ_t log p(w_{t+1} | w_1 … w_t) + Σ_t log p(w_{t−1} | w_t … w_T))

The two parts are also reported separately. The paper adds them without the ½; with it, the loss is per word.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from regard.core.batch import Batch
from regard.core.directions import Direction
from regard.core.measured import Measured, perplexity
from regard.tasks._task import Task
from regard.tasks.loss import label_log_probs, linear_cross_entropy, matrix

_SIDES = ("forward", "backward")


class BidirectionalLm(Task):
    """Loss per predicted word of `input_ids` [B,T] with `characters` [B,T,L]; `hidden` [B,T,2P] holds both sides."""

    directions: ClassVar[dict[str, Direction]] = {
        "loss": "lower",
        "perplexity": "lower",
        **{f"{side}_{number}": "lower" for side in _SIDES for number in ("loss", "perplexity")},
    }

    def __init__(self, *, label_smoothing: float = 0.0) -> None:
        self.label_smoothing = label_smoothing

    def count(self, batch: Batch) -> int:
        return 2 * batch["input_ids"][:, 1:].numel()

    def loss(self, model: Any, batch: Batch) -> Tensor:
        weight, bias = matrix(model.output)
        # Both directions share the output layer, so one call serves both.
        hidden, labels = (torch.cat(parts) for parts in zip(*_predictions(model, batch), strict=True))
        return linear_cross_entropy(hidden, weight, labels, bias=bias, smoothing=self.label_smoothing)

    def measure(self, model: Any, batch: Batch) -> Measured:
        sums = {}
        with torch.no_grad():
            weight, bias = matrix(model.output)
            for side, (hidden, labels) in zip(_SIDES, _predictions(model, batch), strict=True):
                log_probs = label_log_probs(hidden, weight, labels, bias=bias)
                sums[f"{side}_loss"] = -log_probs.double().sum().item()
        half = self.count(batch) // 2
        return Measured({"loss": sum(sums.values()), **sums}, {"loss": 2 * half, **dict.fromkeys(sums, half)})

    def summary(self, measured: Measured) -> dict[str, float]:
        means = measured.means()
        return {**means, **{name.replace("loss", "perplexity"): perplexity(loss) for name, loss in means.items()}}


def _predictions(model: Any, batch: Batch) -> list[tuple[Tensor, Tensor]]:
    """States [N,P] and the words [N] that they predict: the next by the forward half, the previous by the backward."""
    ids = batch["input_ids"]
    forward, backward = model(characters=batch["characters"]).hidden.chunk(2, -1)
    pairs = [(forward[:, :-1], ids[:, 1:]), (backward[:, 1:], ids[:, :-1])]
    return [(hidden.flatten(0, 1), labels.flatten()) for hidden, labels in pairs]
