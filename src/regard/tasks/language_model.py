"""Language modelling: the next token given all before it in the window.

loss = − Σ_t log p(x_{t+1} | x_1 … x_t)
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor, nn

from regard.core.batch import Batch
from regard.tasks.loss import label_log_probs, linear_cross_entropy, matrix


class PredictsNext(Protocol):
    """What this task needs of a model: states before the output layer, and that layer."""

    output: nn.Module

    def states(self, input_ids: Tensor) -> Tensor: ...


class LanguageModel:
    """Loss per token of `labels` [B,T], which stand one further on than `input_ids` [B,T]."""

    def __init__(self, *, label_smoothing: float = 0.0) -> None:
        self.label_smoothing = label_smoothing

    def count(self, batch: Batch) -> int:
        return batch["labels"].numel()

    def loss(self, model: PredictsNext, batch: Batch) -> Tensor:
        """The loss summed over the batch's tokens."""
        hidden, labels = model.states(batch["input_ids"]).flatten(0, 1), batch["labels"].flatten()
        weight, bias = matrix(model.output)
        return linear_cross_entropy(hidden, weight, labels, bias=bias, smoothing=self.label_smoothing)

    def log_probs(self, model: PredictsNext, batch: Batch) -> Tensor:
        """log p of every label, without smoothing."""
        with torch.no_grad():
            hidden = model.states(batch["input_ids"]).flatten(0, 1)
            weight, bias = matrix(model.output)
            return label_log_probs(hidden, weight, batch["labels"].flatten(), bias=bias)
