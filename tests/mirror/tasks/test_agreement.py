"""R-Drop: the divergence of two passes against the same written out, and the loss that a recipe with it trains."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from regard.core.batch import Batch
from regard.core.errors import ConfigError
from regard.models.transformer import Transformer, TransformerConfig
from regard.runs.jobs.classification import ClassificationJob
from regard.runs.parsing import parse_recipe
from regard.tasks import agreement
from regard.tasks.agreement import symmetric_divergence
from regard.tasks.translation import Translation


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("slice_size", [30, 10**9])
def test_equals_the_divergences_written_out(biased, slice_size, monkeypatch):
    monkeypatch.setattr(agreement, "SLICE", slice_size)
    first, second = (torch.randn(7, 6, dtype=torch.float64, requires_grad=True) for _ in range(2))
    weight = torch.randn(11, 6, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(11, dtype=torch.float64, requires_grad=True) if biased else None
    log_p, log_q = (F.linear(part, weight, bias).log_softmax(-1) for part in (first, second))
    expected = F.kl_div(log_q, log_p, reduction="sum", log_target=True)
    expected = expected + F.kl_div(log_p, log_q, reduction="sum", log_target=True)
    ours = symmetric_divergence(first, second, weight, bias=bias)
    torch.testing.assert_close(ours, expected)
    trained = [tensor for tensor in (first, second, weight, bias) if tensor is not None]
    for own, other in zip(*(torch.autograd.grad(loss * 0.3, trained) for loss in (ours, expected)), strict=True):
        torch.testing.assert_close(own, other)


def _model_and_batch(dropout):
    torch.manual_seed(1)
    sizes = {"source_vocab": 20, "target_vocab": 20, "d_model": 8, "n_heads": 2, "d_ff": 16}
    model = Transformer(TransformerConfig(**sizes, dropout=dropout)).train()
    source, target = torch.randint(4, 20, (3, 5)), torch.randint(4, 20, (3, 6))
    masks = {"source_mask": torch.ones(3, 5, dtype=torch.bool), "target_mask": torch.ones(3, 6, dtype=torch.bool)}
    return model, Batch({"source": source, "target": target, **masks}, (0, 1, 2))


def test_without_dropout_the_passes_agree():
    model, batch = _model_and_batch(0.0)
    plain, twice = (Translation(label_smoothing=0.1, r_drop=weight).loss(model, batch) for weight in (0.0, 5.0))
    torch.testing.assert_close(plain, twice)


def test_with_dropout_disagreement_costs():
    model, batch = _model_and_batch(0.4)
    losses = []
    for weight in (1e-9, 4.0):
        torch.manual_seed(2)
        losses.append(Translation(r_drop=weight).loss(model, batch).item())
    torch.manual_seed(2)
    mean = sum(Translation().loss(model, batch).item() for _ in range(2)) / 2
    assert losses[0] == pytest.approx(mean, rel=1e-5)
    assert losses[1] > mean * 1.01


def test_other_tasks_refuse_it():
    data = {"train": {"file": "x.tsv", "text": "a", "label": "b"}}
    recipe = parse_recipe({"task": "classification", "data": data, "training": {"r_drop": 1.0}})
    with pytest.raises(ConfigError, match="has no R-Drop"):
        ClassificationJob(recipe, None)
