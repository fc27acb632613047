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
from regard.tasks import loss as losses
from regard.tasks.agreement import linear_agreement
from regard.tasks.translation import Translation


def _written_out(states, weight, bias, labels, smoothing, strength):
    logits = [F.linear(part, weight, bias) for part in states]
    log_p, log_q = (part.log_softmax(-1) for part in logits)
    apart = F.kl_div(log_q, log_p, reduction="sum", log_target=True)
    apart = apart + F.kl_div(log_p, log_q, reduction="sum", log_target=True)
    losses = [F.cross_entropy(part, labels, label_smoothing=smoothing, reduction="sum") for part in logits]
    return sum(losses) / 2 + strength / 4 * apart


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("slice_size", [60, 10**9])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_equals_the_losses_and_divergences_written_out(dtype, slice_size, biased, compiled, monkeypatch):
    monkeypatch.setattr(losses, "SLICE", slice_size)
    if not compiled:
        monkeypatch.setattr(agreement, "native_agreement", lambda dtype, device: None)
    elif agreement.native_agreement(torch.float32, torch.device("cpu")) is None:
        pytest.skip("no C compiler here")
    first, second = (torch.randn(7, 6, dtype=dtype, requires_grad=True) for _ in range(2))
    weight = torch.randn(37, 6, dtype=dtype, requires_grad=True)
    bias = torch.randn(37, dtype=dtype, requires_grad=True) if biased else None
    labels = torch.randint(37, (7,))
    expected = _written_out((first, second), weight, bias, labels, 0.1, 3.0)
    ours = linear_agreement((first, second), weight, labels, bias=bias, smoothing=0.1, strength=3.0)
    torch.testing.assert_close(ours.to(dtype), expected, rtol=1e-5, atol=1e-5)
    trained = [tensor for tensor in (first, second, weight, bias) if tensor is not None]
    for own, other in zip(*(torch.autograd.grad(loss * 0.3, trained) for loss in (ours, expected)), strict=True):
        torch.testing.assert_close(own, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("compiled", [True, False])
def test_in_lower_precision_it_is_near_the_exact_loss(compiled, monkeypatch):
    if not compiled:
        monkeypatch.setattr(agreement, "native_agreement", lambda dtype, device: None)
    states = [torch.randn(50, 16, requires_grad=True) for _ in range(2)]
    weight, labels = torch.randn(100, 16, requires_grad=True), torch.randint(100, (50,))
    expected = _written_out(states, weight, None, labels, 0.1, 3.0)
    with torch.autocast("cpu", torch.bfloat16):
        ours = linear_agreement(tuple(states), weight, labels, smoothing=0.1, strength=3.0)
    torch.testing.assert_close(ours, expected, rtol=0.01, atol=0)
    for own, other in zip(*(torch.autograd.grad(loss, [*states, weight]) for loss in (ours, expected)), strict=True):
        assert (own - other).norm() < 0.02 * other.norm()


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
    with_weight = []
    for weight in (1e-9, 4.0):
        torch.manual_seed(2)
        with_weight.append(Translation(r_drop=weight).loss(model, batch).item())
    torch.manual_seed(2)
    mean = sum(Translation().loss(model, batch).item() for _ in range(2)) / 2
    assert with_weight[0] == pytest.approx(mean, rel=1e-5)
    assert with_weight[1] > mean * 1.01


def test_other_tasks_refuse_it():
    data = {"train": {"file": "x.tsv", "text": "a", "label": "b"}}
    recipe = parse_recipe({"task": "classification", "data": data, "training": {"r_drop": 1.0}})
    with pytest.raises(ConfigError, match="has no R-Drop"):
        ClassificationJob(recipe, None)
