"""Classes of images: torch's own loss, and a batch learnt by heart."""

import torch
from torch.nn import functional

from regard.core.batch import Batch
from regard.core.measured import stacked
from regard.models import config_of, make_model
from regard.tasks.image_classification import ImageClassification
from regard.training.config import TrainingConfig
from regard.training.optim import make_optimizer

SHAPE = {"image_size": 8, "patch_size": 4, "channels": 1, "d_model": 32, "n_layers": 2, "n_heads": 2, "d_ff": 64}


def batch() -> Batch:
    return Batch({"pixel_values": torch.randn(12, 1, 8, 8), "labels": torch.arange(12) % 5}, tuple(range(12)))


def vit():
    return make_model("vit", config_of("vit", {**SHAPE, "n_labels": 5}))


def test_the_loss_is_torchs():
    model, some = vit(), batch()
    logits = model(pixel_values=some["pixel_values"]).logits
    for smoothing in (0.0, 0.1):
        task = ImageClassification(label_smoothing=smoothing)
        expected = functional.cross_entropy(logits, some["labels"], label_smoothing=smoothing)
        torch.testing.assert_close(task.loss(model, some) / task.count(some), expected)
        measured = task.measure(model, some)
        numbers = task.summary(measured)
        torch.testing.assert_close(numbers["loss"], functional.cross_entropy(logits, some["labels"]).item())
        assert numbers["accuracy"] == int((logits.argmax(1) == some["labels"]).sum()) / 12
        torch.testing.assert_close(stacked(measured.answers).float(), logits)


def test_it_learns_a_batch_by_heart():
    model, some, task = vit(), batch(), ImageClassification()
    optimizer = make_optimizer(model, TrainingConfig(max_steps=1, lr=2e-3))
    for _ in range(100):
        loss = task.loss(model, some) / task.count(some)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.05
    assert task.summary(task.measure(model.eval(), some))["accuracy"] == 1
