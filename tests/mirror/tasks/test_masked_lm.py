"""Masked words and next sentences: the loss in torch's own terms, and a batch learnt by heart."""

import pytest
import torch
from torch.nn import functional

from regard.core.batch import Batch
from regard.models import config_of, make_model
from regard.tasks.masked_lm import MaskedLm
from regard.training.config import TrainingConfig
from regard.training.optim import make_optimizer

SHAPE = {"vocab_size": 23, "max_len": 16, "d_model": 32, "n_layers": 2, "n_heads": 2, "d_ff": 64, "dropout": 0.0,
         "attention_dropout": 0.0}  # fmt: skip


def batch(rows: int = 4, pairs: bool = True) -> Batch:
    ids = torch.randint(5, 23, (rows, 12))
    real = torch.ones_like(ids).bool()
    real[-1, 9:] = False
    labels = torch.where((torch.rand(rows, 12) < 0.3) & real, ids, -100)
    tensors = {
        "input_ids": torch.where(labels >= 0, 4, ids), "attention_mask": real, "labels": labels,
        "token_type_ids": (torch.arange(12) > 6).long().expand(rows, -1),
    }  # fmt: skip
    return Batch({**tensors, "pair_labels": torch.arange(rows) % 2} if pairs else tensors)


def bert(head: str = "pretraining"):
    return make_model("bert", config_of("bert", {**SHAPE, "head": head}))


@pytest.mark.parametrize("pairs", [True, False])
def test_the_loss_is_the_sum_of_two_means(pairs):
    model, some, task = bert("pretraining" if pairs else "masked_lm"), batch(pairs=pairs), MaskedLm()
    model.output.bias.data.normal_()
    inputs = {name: some[name] for name in ("input_ids", "attention_mask", "token_type_ids")}
    found = model(**inputs)
    words = functional.cross_entropy(found.logits.flatten(0, 1), some["labels"].flatten())
    expected = words + (functional.cross_entropy(found.pair_logits, some["pair_labels"]) if pairs else 0)
    assert task.count(some) == int((some["labels"] >= 0).sum())
    torch.testing.assert_close(task.loss(model, some) / task.count(some), expected)
    measured = task.measure(model, some)
    numbers = task.summary(measured)
    assert numbers["loss"] == pytest.approx(expected.item(), rel=1e-5)
    assert numbers["mlm_loss"] == pytest.approx(words.item(), rel=1e-5)
    asked = some["labels"] >= 0
    assert measured.sums["mlm_accuracy"] == int((found.logits.argmax(-1) == some["labels"])[asked].sum())
    assert measured.counts.get("nsp_loss") == (4 if pairs else None)
    if pairs:
        assert measured.sums["nsp_accuracy"] == int((found.pair_logits.argmax(-1) == some["pair_labels"]).sum())


def test_it_learns_a_batch_by_heart():
    model, some, task = bert(), batch(), MaskedLm()
    optimizer = make_optimizer(model, TrainingConfig(max_steps=1, lr=3e-3))
    for _ in range(150):
        loss = task.loss(model, some) / task.count(some)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    numbers = task.summary(task.measure(model.eval(), some))
    assert loss.item() < 0.1
    assert (numbers["mlm_accuracy"], numbers["nsp_accuracy"]) == (1, 1)
