"""Translation: the next target token given the source and the target so far (teacher forcing).

The target is `<s> y_1 … y_n </s>`; the decoder reads it without its last token (shifted right, as the lectures put it)
and is asked for it without its first.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor, nn

from regard.core.batch import Batch
from regard.tasks.loss import label_log_probs, linear_cross_entropy


class Translates(Protocol):
    """What this task needs of a model: states before the output layer, and that layer's matrix."""

    output: nn.Module

    def __call__(self, source: Tensor, source_mask: Tensor, target: Tensor) -> Tensor: ...


class Translation:
    """Loss per real target token; padding is never projected to the vocabulary."""

    def __init__(self, *, label_smoothing: float = 0.0) -> None:
        self.label_smoothing = label_smoothing

    def count(self, batch: Batch) -> int:
        """How many tokens the loss of this batch is summed over."""
        return int(batch["target_mask"][:, 1:].sum())

    def loss(self, model: Translates, batch: Batch) -> Tensor:
        """The loss summed over the batch's target tokens; for hard attention plus REINFORCE, rewarded by log p."""
        baseline = getattr(model, "baseline", None)
        if baseline is None:
            hidden, labels = self._real(model(*_inputs(batch)), batch)
            return linear_cross_entropy(hidden, _matrix(model), labels, smoothing=self.label_smoothing)
        outputs, log_prob = model.forward_sampled(*_inputs(batch))  # type: ignore[attr-defined]
        hidden, labels = self._real(outputs, batch)
        loss = linear_cross_entropy(hidden, _matrix(model), labels, smoothing=self.label_smoothing)
        if log_prob is None:
            return loss
        reward = label_log_probs(hidden.detach(), _matrix(model), labels)
        chosen = log_prob[batch["target_mask"][:, 1:]]
        return loss + len(labels) * baseline(chosen, reward)

    def log_probs(self, model: Translates, batch: Batch) -> Tensor:
        """log p of every real target token, without smoothing: its mean is minus the validation loss."""
        with torch.no_grad():
            hidden, labels = self._real(model(*_inputs(batch)), batch)
            return label_log_probs(hidden, _matrix(model), labels)

    @staticmethod
    def _real(outputs: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        real = batch["target_mask"][:, 1:]
        return outputs[real], batch["target"][:, 1:][real]


def _inputs(batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    return batch["source"], batch["source_mask"], batch["target"][:, :-1]


def _matrix(model: Translates) -> Tensor:
    weight = model.output.weight
    assert isinstance(weight, Tensor)
    return weight
