"""Captions that a model samples to learn from: their advantages, the same samples again, and what they teach."""

import numpy as np
import pytest
import torch

from regard.core.batch import Batch
from regard.data.captions import Captioned, CaptionRows
from regard.data.text import make_tokenizer
from regard.evaluation.text_scores import sentence_bleu
from regard.models import config_of, make_model
from regard.runs.own_captions import OwnCaptions
from regard.tasks.captioning import Captioning

ENTRIES = [Captioned(f"{number}.png", ("a red dog runs fast", "the dog runs")) for number in range(6)]


class Seen:
    """Features of six images in one version."""

    versions = 1

    def __init__(self):
        self.features = torch.randn(6, 4, 8, generator=torch.Generator().manual_seed(0))

    def __call__(self, images, versions):
        return {"features": self.features[list(images)]}


@pytest.fixture
def tokenizer():
    return make_tokenizer("space", [text for entry in ENTRIES for text in entry.captions])


@pytest.fixture
def model(tokenizer):
    torch.manual_seed(3)
    sizes = {"d_embedding": 8, "d_hidden": 12, "d_memory": 8, "d_attention": 8, "dropout": 0.0}
    inner = {"encoder": "resnet", "encoder_options": {"image_size": 16, "widths": (4, 8), "blocks": 1}}
    return make_model("show_attend_tell", config_of("show_attend_tell",
                      {**sizes, **inner, "vocab_size": tokenizer.vocab_size}))  # fmt: skip


def own(model, tokenizer, **changes):
    rows = CaptionRows(ENTRIES, Seen, tokenizer)
    return OwnCaptions(model, rows, tokenizer, **{"images": 4, "samples": 3, "seed": 5, **changes})


def test_each_sample_is_compared_with_the_others_of_its_image(model, tokenizer):
    batches = list(own(model, tokenizer).epoch(0))
    assert [len(batch["target"]) for batch in batches] == [12, 6]
    assert sorted({row for batch in batches for row in batch.rows}) == list(range(6))
    batch = batches[0]
    for image in range(4):
        scores = []
        for row in range(3 * image, 3 * image + 3):
            ids = batch["target"][row][batch["target_mask"][row]].tolist()
            assert ids[0] == tokenizer.bos
            scores.append(sentence_bleu(tokenizer.decode(ids), ENTRIES[0].captions))
        others = [(sum(scores) - score) / 2 for score in scores]
        expected = [score - other for score, other in zip(scores, others, strict=True)]
        assert batch["advantages"][3 * image : 3 * image + 3].tolist() == pytest.approx(expected, abs=1e-6)
    assert batch["advantages"].abs().max() > 0


def test_samples_depend_on_seed_and_epoch_only(model, tokenizer):
    def targets(number, **changes):
        return [batch["target"].tolist() for batch in own(model, tokenizer, **changes).epoch(number)]

    model.train()
    state = torch.get_rng_state()
    first = targets(2)
    assert torch.equal(state, torch.get_rng_state()), "the random numbers of training do not move"
    assert model.training
    assert first == targets(2)
    assert first != targets(3)
    assert first != targets(2, seed=6)
    again = own(model, tokenizer).epoch(2, start=1)
    assert [batch["target"].tolist() for batch in again] == first[1:]


def test_the_loss_is_the_log_probability_times_the_advantage(model, tokenizer):
    batch = next(iter(own(model, tokenizer).epoch(0)))
    model.eval()
    output = model(batch["target"][:, :-1], features=batch["features"])
    log_probs = output.logits.log_softmax(-1).gather(2, batch["target"][:, 1:, None])[..., 0]
    summed = (log_probs * batch["target_mask"][:, 1:]).sum(1)
    expected = -(summed * batch["advantages"]).sum()
    assert Captioning().loss(model, batch).item() == pytest.approx(expected.item(), rel=1e-5)


def test_a_model_learns_from_its_own_captions(model, tokenizer):
    data, task = own(model, tokenizer, images=6, samples=8), Captioning()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    def mean_score(number):
        scores = []
        for batch in data.epoch(number):
            assert isinstance(batch, Batch)
            scores += [sentence_bleu(tokenizer.decode(row.tolist()), ENTRIES[0].captions) for row in batch["target"]]
        return float(np.mean(scores))

    before = mean_score(1000)
    for number in range(80):
        for batch in data.epoch(number):
            optimizer.zero_grad()
            (task.loss(model.train(), batch) / task.count(batch)).backward()
            optimizer.step()
    assert mean_score(1000) > before + 0.3
