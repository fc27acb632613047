"""Translation: predict the next target token from the source and the target so far (teacher forcing).

The target is `<s> y_1 … y_n </s>`. The decoder reads it without its last token (shifted right) and predicts it without
its first. Models of other libraries may begin with another token; Marian begins with padding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor, nn

from regard.core.batch import Batch
from regard.core.directions import Direction
from regard.core.measured import Measured, perplexity
from regard.core.output import Output
from regard.tasks._task import Task
from regard.tasks.agreement import linear_agreement
from regard.tasks.loss import label_log_probs, linear_cross_entropy, matrix


class Translates(Protocol):
    """What this task needs of a model: states before the output layer, and that layer's matrix and bias.

    A model that samples returns `log_prob` and has a `baseline`, for the surrogate loss of REINFORCE, and may have a
    weight for it (`reward`).
    """

    output: nn.Module
    baseline: Callable[[Tensor, Tensor], Tensor]

    def __call__(self, source: Tensor, source_mask: Tensor, target: Tensor) -> Output: ...


class Translation(Task):
    """Loss per real target token; padding is never projected to the vocabulary.

    A task that generates text from another input overrides `run`.
    """

    directions: ClassVar[dict[str, Direction]] = {"loss": "lower", "perplexity": "lower"}

    def __init__(self, *, label_smoothing: float = 0.0, r_drop: float = 0.0) -> None:
        self.label_smoothing, self.r_drop = label_smoothing, r_drop

    def count(self, batch: Batch) -> int:
        return int(batch["target_mask"][:, 1:].sum())

    def run(self, model: Any, batch: Batch) -> Output:
        """The model's output for the batch: states [B,T−1,D] that predict all target tokens but the first."""
        output: Output = model(batch["source"], batch["source_mask"], batch["target"][:, :-1])
        return output

    def loss(self, model: Translates, batch: Batch) -> Tensor:
        """The loss summed over the batch's target tokens; with R-Drop that of two passes (`agreement.py`)."""
        weight, bias = matrix(model.output)
        hidden, labels, extra = self._pass(model, batch)
        if not self.r_drop:
            own = linear_cross_entropy(hidden, weight, labels, bias=bias, smoothing=self.label_smoothing)
            return own if extra is None else own + extra
        again, _, other_extra = self._pass(model, batch)
        options = {"strength": self.r_drop, "smoothing": self.label_smoothing}
        both = linear_agreement((hidden, again), weight, labels, bias=bias, **options)
        return both if extra is None or other_extra is None else both + (extra + other_extra) / 2

    def _pass(self, model: Translates, batch: Batch) -> tuple[Tensor, Tensor, Tensor | None]:
        """The states of real tokens in one pass, their labels, and what the model adds to the loss: its own penalty
        and, if choices were sampled, the REINFORCE loss with log p of the target as reward."""
        output = self.run(model, batch)
        hidden, labels = _real(output, batch)
        extra = None if output.penalty is None else _total(output.penalty, batch)
        if output.log_prob is None:
            return hidden, labels, extra
        weight, bias = matrix(model.output)
        reward = label_log_probs(hidden.detach(), weight, labels, bias=bias)
        chosen = output.log_prob[batch["target_mask"][:, 1:]]
        sampled = getattr(model, "reward", 1.0) * len(labels) * model.baseline(chosen, reward)
        return hidden, labels, sampled if extra is None else extra + sampled

    def measure(self, model: Translates, batch: Batch) -> Measured:
        """−log p of every real target token."""
        with torch.no_grad():
            hidden, labels = _real(self.run(model, batch), batch)
            weight, bias = matrix(model.output)
            log_probs = label_log_probs(hidden, weight, labels, bias=bias)
        return Measured({"loss": -log_probs.double().sum().item()}, {"loss": len(log_probs)})

    def summary(self, measured: Measured) -> dict[str, float]:
        means = measured.means()
        return {**means, "perplexity": perplexity(means["loss"])}


def _total(penalty: Tensor, batch: Batch) -> Tensor:
    """The sum over the rows, or over the real target tokens."""
    return penalty.sum() if penalty.dim() == 1 else penalty[batch["target_mask"][:, 1:]].sum()


def _real(output: Output, batch: Batch) -> tuple[Tensor, Tensor]:
    """The states and labels of real tokens."""
    assert output.hidden is not None
    real = batch["target_mask"][:, 1:]
    return output.hidden[real], batch["target"][:, 1:][real]
