"""Masked language modelling and next-sentence prediction (Devlin et al. 2019, §3.1).

    loss = mean over the masked tokens of −log p(token)  +  mean over the rows of −log p(B follows A, or not)

The engine divides a sum by a count of tokens, so the second part is multiplied by the masked tokens per row.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from regard.core.batch import Batch
from regard.core.directions import Direction
from regard.core.measured import Measured
from regard.tasks._task import Task
from regard.tasks.loss import label_log_probs, linear_cross_entropy, matrix


class MaskedLm(Task):
    """Reads `labels` [B,T], negative where nothing is predicted, and `pair_labels` [B] if the batch has them.

    The model has `states`, `transform`, `output`; for pairs also `pool` and `pair`. Only tokens to predict are
    projected to the vocabulary.
    """

    directions: ClassVar[dict[str, Direction]] = {
        "loss": "lower",
        "mlm_loss": "lower",
        "mlm_accuracy": "higher",
        "nsp_loss": "lower",
        "nsp_accuracy": "higher",
    }

    def count(self, batch: Batch) -> int:
        return int((batch["labels"] >= 0).sum())

    def loss(self, model: Any, batch: Batch) -> Tensor:
        hidden, words, labels = self._states(model, batch)
        weight, bias = matrix(model.output)
        loss = linear_cross_entropy(words, weight, labels, bias=bias)
        if "pair_labels" in batch:
            pairs = functional.cross_entropy(model.pair(model.pool(hidden)).float(), batch["pair_labels"])
            loss = loss + len(labels) * pairs
        return loss

    def measure(self, model: Any, batch: Batch) -> Measured:
        """The two losses, and the numbers of right tokens and pairs."""
        with torch.no_grad():
            hidden, words, labels = self._states(model, batch)
            weight, bias = matrix(model.output)
            log_probs = label_log_probs(words, weight, labels, bias=bias)
            right = float((functional.linear(words, weight, bias).argmax(1) == labels).sum())
            sums = {"mlm_loss": -log_probs.double().sum().item(), "mlm_accuracy": right}
            counts = dict.fromkeys(sums, len(labels))
            if "pair_labels" in batch:
                follows, logits = batch["pair_labels"], model.pair(model.pool(hidden)).double()
                sums["nsp_loss"] = functional.cross_entropy(logits, follows, reduction="sum").item()
                sums["nsp_accuracy"] = float((logits.argmax(1) == follows).sum())
                counts |= {"nsp_loss": len(follows), "nsp_accuracy": len(follows)}
        return Measured(sums, counts)

    def summary(self, measured: Measured) -> dict[str, float]:
        """The training loss, its two parts, and the accuracies."""
        means = measured.means()
        return {"loss": means["mlm_loss"] + means.get("nsp_loss", 0.0), **means}

    @staticmethod
    def _states(model: Any, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        hidden = model.states(batch["input_ids"], batch["attention_mask"], batch["token_type_ids"])
        asked = batch["labels"] >= 0
        return hidden, model.transform(hidden[asked]), batch["labels"][asked]
