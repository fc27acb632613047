"""Blocks that compute their inside again: the same loss and gradients, and less kept for the backward pass."""

from __future__ import annotations

import pytest
import torch

from regard.core import taps
from regard.core.errors import UsageError
from regard.models.gpt2 import Gpt2, Gpt2Config
from regard.models.transformer import Transformer, TransformerConfig
from regard.training.recompute import recompute_blocks

TOKENS = torch.arange(4, 28).view(2, 12) % 20


def _transformer():
    sizes = {"source_vocab": 20, "target_vocab": 20, "d_model": 16, "n_heads": 2, "d_ff": 64, "dropout": 0.3}
    model = Transformer(TransformerConfig(**sizes))
    return model, lambda: model(TOKENS, torch.ones_like(TOKENS, dtype=torch.bool), TOKENS).hidden


def _gpt2():
    model = Gpt2(Gpt2Config(vocab_size=20, d_model=16, n_heads=2, n_layers=3, max_len=12, dropout=0.3))
    return model, lambda: model(input_ids=TOKENS).hidden


def _run(make, wanted):
    torch.manual_seed(1)
    model, forward = make()
    model.train()
    recompute_blocks(model, wanted)
    kept = 0

    def keep(tensor):
        nonlocal kept
        kept += tensor.numel()
        return tensor

    torch.manual_seed(2)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = forward().square().sum()
    held = kept
    loss.backward()
    grads = {name: part.grad for name, part in model.named_parameters() if part.grad is not None}
    return loss.detach(), grads, held, torch.get_rng_state()


@pytest.mark.parametrize("make", [_transformer, _gpt2])
def test_the_same_bits_for_less_memory(make):
    loss, grads, held, generator = _run(make, wanted=False)
    again, others, less, generator_after = _run(make, wanted=True)
    assert torch.equal(loss, again)
    assert grads.keys() == others.keys()
    assert all(torch.equal(grads[name], others[name]) for name in grads)
    assert torch.equal(generator, generator_after)
    assert less < held / 3


def test_watching_such_a_model_changes_nothing():
    model, forward = _gpt2()
    model.eval()
    plain = forward()
    recompute_blocks(model, True)
    assert torch.equal(plain, forward())
    with taps.watch() as record:
        assert torch.equal(plain, forward())
    assert record.seen


def test_a_model_without_blocks_is_refused():
    with pytest.raises(UsageError, match="no Transformer blocks"):
        recompute_blocks(torch.nn.Linear(2, 2), True)
    recompute_blocks(torch.nn.Linear(2, 2), False)
