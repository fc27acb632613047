"""Sentence embeddings whose cosine measures similarity (Reimers & Gurevych 2019).

    cosine        (cos(u, v) − score)²: scores from 0 to 1, such as those of the STS benchmark
    contrastive   − log softmax_j (cos(u_i, v_j) / τ) at j = i, and the same from v to u: each pair is separated
                  from the others of the batch (Henderson et al. 2017; both directions as in Radford et al. 2021)

Where we differ: other pairs of the batch with exactly the same text as the right one are not counted as wrong answers.
"""

from __future__ import annotations

from typing import Literal, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.core.batch import Batch
from regard.core.devices import full_precision
from regard.core.measured import Measured, stacked
from regard.core.output import Output
from regard.tasks._task import Task

Mode = Literal["cosine", "contrastive"]


class Embeds(Protocol):
    """What this task needs of a model: `pooled` [B,D], vectors of length 1."""

    def __call__(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> Output: ...


class SentenceSimilarity(Task):
    """Loss per pair; with the cosine loss, `labels` [B] are scores from 0 to 1."""

    unit = "pairs"

    def __init__(self, mode: Mode = "cosine", *, temperature: float = 0.05) -> None:
        self.mode, self.temperature = mode, temperature

    def loss(self, model: Embeds, batch: Batch) -> Tensor:
        first, other = embedded(model, batch), embedded(model, batch, "other_")
        if self.mode == "cosine":
            return F.mse_loss((first * other).sum(-1), batch["labels"], reduction="sum")
        with full_precision(first):  # small differences of cosines are divided by a small number
            scores = first @ other.T / self.temperature
        there, back = (_same(batch[f"{side}input_ids"]) for side in ("other_", ""))
        right = torch.arange(batch.size, device=scores.device)
        return (
            F.cross_entropy(scores.masked_fill(there, float("-inf")), right, reduction="sum")
            + F.cross_entropy(scores.T.masked_fill(back, float("-inf")), right, reduction="sum")
        ) / 2

    def measure(self, model: Embeds, batch: Batch) -> Measured:
        """The cosine of each pair."""
        with torch.no_grad():
            cosines = (embedded(model, batch) * embedded(model, batch, "other_")).sum(-1)
        measured = Measured(answers=dict(zip(batch.rows, cosines, strict=True)))
        if "labels" in batch:
            measured.targets = dict(zip(batch.rows, batch["labels"], strict=True))
        return measured

    def summary(self, measured: Measured) -> dict[str, float]:
        """The squared difference of cosines and scores, for either training loss."""
        cosines, scores = stacked(measured.answers), stacked(measured.targets)
        return {"loss": float((cosines - scores).square().mean())}


def embedded(model: Embeds, batch: Batch, side: str = "") -> Tensor:
    names = (f"{side}{name}" for name in ("input_ids", "attention_mask", "token_type_ids"))
    vectors = model(*(batch[name] for name in names)).pooled
    assert vectors is not None, "the model returns no vector for a sentence"
    return vectors.float()


def _same(ids: Tensor) -> Tensor:
    """True at [i,j], i ≠ j, where rows i and j are the same text."""
    same = (ids[:, None] == ids[None]).all(-1)
    return same & ~torch.eye(len(ids), dtype=torch.bool, device=ids.device)
