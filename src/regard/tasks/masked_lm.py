"""Masked words and next sentences (Devlin et al. 2019, §3.1).

    loss = mean over the words asked for of −log p(word)  +  mean over the rows of −log p(B follows A, or not)

The engine divides a sum by a count, so the second part is scaled up by the words asked for per row.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from regard.core.batch import Batch
from regard.tasks.loss import label_log_probs, linear_cross_entropy, matrix


class Judged(NamedTuple):
    """What validation adds up: summed losses, right answers, and how many were asked for."""

    word_loss: float
    words_right: int
    words: int
    pair_loss: float
    pairs_right: int
    pairs: int


class MaskedLm:
    """Reads `labels` [B,T], negative where nothing is asked, and `pair_labels` [B] where the batch has them.

    The model has `states`, `transform`, `output`; for pairs also `pool` and `pair`. Only what is asked for is projected
    to the vocabulary.
    """

    def count(self, batch: Batch) -> int:
        return int((batch["labels"] >= 0).sum())

    def loss(self, model: Any, batch: Batch) -> Tensor:
        hidden, words, labels = self._read(model, batch)
        weight, bias = matrix(model.output)
        loss = linear_cross_entropy(words, weight, labels, bias=bias)
        if "pair_labels" in batch:
            pairs = functional.cross_entropy(model.pair(model.pool(hidden)).float(), batch["pair_labels"])
            loss = loss + len(labels) * pairs
        return loss

    def judged(self, model: Any, batch: Batch) -> Judged:
        with torch.no_grad():
            hidden, words, labels = self._read(model, batch)
            weight, bias = matrix(model.output)
            log_probs = label_log_probs(words, weight, labels, bias=bias)
            right = int((functional.linear(words, weight, bias).argmax(1) == labels).sum())
            found = (-log_probs.double().sum().item(), right, len(labels))
            if "pair_labels" not in batch:
                return Judged(*found, 0.0, 0, 0)
            wanted, logits = batch["pair_labels"], model.pair(model.pool(hidden)).double()
            loss = functional.cross_entropy(logits, wanted, reduction="sum").item()
            return Judged(*found, loss, int((logits.argmax(1) == wanted).sum()), len(wanted))

    @staticmethod
    def _read(model: Any, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        hidden = model.states(batch["input_ids"], batch["attention_mask"], batch["token_type_ids"])
        asked = batch["labels"] >= 0
        return hidden, model.transform(hidden[asked]), batch["labels"][asked]
