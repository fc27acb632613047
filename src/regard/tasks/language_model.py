"""Language modelling: predict the next token from all tokens before it in the window.

loss = − Σ_t log p(x_{t+1} | x_1 … x_t)
"""

from __future__ import annotations

from typing import ClassVar, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from regard.core.batch import Batch
from regard.core.directions import Direction
from regard.core.measured import Measured, perplexity
from regard.core.output import Output
from regard.tasks._task import Task
from regard.tasks.loss import label_log_probs, linear_cross_entropy, matrix


class PredictsNext(Protocol):
    """What this task needs of a model: states before the output layer, and that layer."""

    output: nn.Module

    def __call__(self, input_ids: Tensor) -> Output: ...


@runtime_checkable
class GivesLogProbs(Protocol):
    """A model that looks probabilities up: it has no output layer, and gives log p of the labels [B,T]."""

    def label_log_probs(self, input_ids: Tensor, labels: Tensor) -> Tensor: ...


class LanguageModel(Task):
    """Loss per token of `labels` [B,T], which are `input_ids` [B,T] shifted by one."""

    directions: ClassVar[dict[str, Direction]] = {"loss": "lower", "perplexity": "lower"}

    def __init__(self, *, label_smoothing: float = 0.0) -> None:
        self.label_smoothing = label_smoothing

    def count(self, batch: Batch) -> int:
        return batch["labels"].numel()

    def loss(self, model: PredictsNext, batch: Batch) -> Tensor:
        hidden, labels = _states(model, batch), batch["labels"].flatten()
        weight, bias = matrix(model.output)
        return linear_cross_entropy(hidden, weight, labels, bias=bias, smoothing=self.label_smoothing)

    def measure(self, model: PredictsNext | GivesLogProbs, batch: Batch) -> Measured:
        with torch.no_grad():
            if isinstance(model, GivesLogProbs):
                log_probs = model.label_log_probs(batch["input_ids"], batch["labels"]).flatten()
            else:
                weight, bias = matrix(model.output)
                log_probs = label_log_probs(_states(model, batch), weight, batch["labels"].flatten(), bias=bias)
        return Measured({"loss": -log_probs.double().sum().item()}, {"loss": len(log_probs)})

    def summary(self, measured: Measured) -> dict[str, float]:
        means = measured.means()
        return {**means, "perplexity": perplexity(means["loss"])}


def _states(model: PredictsNext, batch: Batch) -> Tensor:
    hidden = model(batch["input_ids"]).hidden
    assert hidden is not None
    return hidden.flatten(0, 1)
