"""Language modelling: predict the next token from all tokens before it in the window.

loss = − Σ_t log p(x_{t+1} | x_1 … x_t)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol, runtime_checkable

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

    def __call__(self, input_ids: Tensor, **carried: Any) -> Output: ...


@runtime_checkable
class GivesLogProbs(Protocol):
    """A model that looks probabilities up: it has no output layer, and gives log p of the labels [B,T]."""

    def label_log_probs(self, input_ids: Tensor, labels: Tensor) -> Tensor: ...


class LanguageModel(Task):
    """Loss per token of `labels` [B,T], which are `input_ids` [B,T] shifted by one."""

    directions: ClassVar[dict[str, Direction]] = {"loss": "lower", "perplexity": "lower"}

    def __init__(self, *, label_smoothing: float = 0.0, carry: bool = False) -> None:
        self.label_smoothing, self.carry = label_smoothing, carry
        self._states: dict[bool, dict[str, Tensor]] = {}
        """The states after the last batch, separately for training (True) and measuring (False); see `carried`."""

    def carried(self) -> Mapping[str, Tensor]:
        """The state from which the next training batch continues: that of a recurrent model after the last batch."""
        return self._states.get(True, {})

    def load_carried(self, tensors: Mapping[str, Tensor]) -> None:
        self._states = {True: dict(tensors)} if tensors else {}

    def _run(self, model: PredictsNext, batch: Batch) -> Tensor:
        """The states before the output layer [B·T,D]. With `carry`, rows that are not `fresh` continue from the state
        after the last batch; no gradient flows into that batch."""
        training = torch.is_grad_enabled()
        if not self.carry:
            output = model(batch["input_ids"])
        else:
            before, fresh = self._states.get(training), batch["fresh"][:, None, None]
            if bool(batch["fresh"].all()):
                before = None
            elif before is not None:
                before = {name: part.masked_fill(fresh, 0.0) for name, part in before.items()}
            output = model(batch["input_ids"], carried=before)
            assert output.state is not None
            # Contiguous, as a checkpoint stores them: a resumed run must compute the same sums as an uninterrupted one.
            self._states[training] = {name: part.detach().clone(memory_format=torch.contiguous_format)
                                      for name, part in output.state.items()}  # fmt: skip
        assert output.hidden is not None
        return output.hidden.flatten(0, 1)

    def count(self, batch: Batch) -> int:
        return batch["labels"].numel()

    def loss(self, model: PredictsNext, batch: Batch) -> Tensor:
        hidden, labels = self._run(model, batch), batch["labels"].flatten()
        weight, bias = matrix(model.output)
        return linear_cross_entropy(hidden, weight, labels, bias=bias, smoothing=self.label_smoothing)

    def measure(self, model: PredictsNext | GivesLogProbs, batch: Batch) -> Measured:
        with torch.no_grad():
            if isinstance(model, GivesLogProbs):
                log_probs = model.label_log_probs(batch["input_ids"], batch["labels"]).flatten()
            else:
                weight, bias = matrix(model.output)
                log_probs = label_log_probs(self._run(model, batch), weight, batch["labels"].flatten(), bias=bias)
        return Measured({"loss": -log_probs.double().sum().item()}, {"loss": len(log_probs)})

    def summary(self, measured: Measured) -> dict[str, float]:
        means = measured.means()
        return {**means, "perplexity": perplexity(means["loss"])}
