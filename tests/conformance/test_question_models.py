"""What every model that answers questions about images must keep, in its variants."""

import pytest
import torch

import regard
from regard.core import lookup, weights
from regard.core.batch import Batch, pad
from regard.core.errors import ConfigError
from regard.models import config_of, make_model
from regard.models._exemplars import DifferentialContext, nearest_and_farthest, triplet
from regard.tasks.visual_question_answering import VisualQuestionAnswering
from regard.training.config import TrainingConfig
from regard.training.optim import make_optimizer

ENCODER = {"encoder": "resnet", "encoder_options": {"image_size": 8, "widths": (6, 8), "blocks": 1}}
SMALL = {
    "vqa": {
        **{"vocab_size": 23, "n_labels": 5, **ENCODER, "d_embedding": 10, "d_model": 12, "n_heads": 3},
        **{"d_attention": 9, "d_answer": 11, "exemplars": 3, "exemplar_questions": 2, "exemplar_words": 4},
    }
}
VARIANTS = [
    {"hops": 1},
    {"hops": 2, "question": "transformer", "n_layers": 2},
    *({"score": score} for score in lookup.names("regard.attention.scores") if score not in ("additive", "location")),
    {"frozen": True, "d_answer": 0},
    {"differential": "dan"},
    {"differential": "dan", "between": "contexts", "hops": 1},
    {"differential": "dcn", "question": "transformer"},
]
IDS = ["-".join(f"{value}" for value in options.values()) for options in VARIANTS]


def make(options):
    torch.manual_seed(0)
    model = make_model("vqa", config_of("vqa", {**SMALL["vqa"], **options}))
    if model.bank is not None:
        some = batch(seed=9)
        model.bank.fill(*(some[name] for name in ("pixel_values", "input_ids", "attention_mask", "labels")))
    return model


def batch(seed=1):
    """Three images with two, one and two questions."""
    generator = torch.Generator().manual_seed(seed)
    rows = [torch.randint(4, 23, (n,), generator=generator).tolist() for n in (4, 6, 2, 0, 3, 5)]
    ids, mask = pad(rows, value=0)
    labels = torch.tensor([[0, 3], [4, -100], [1, 1]])
    pixels = torch.randn(3, 3, 8, 8, generator=generator)
    return Batch(
        {
            "pixel_values": pixels,
            "input_ids": ids.view(3, 2, -1),
            "attention_mask": mask.view(3, 2, -1),
            "labels": labels,
            "numbers": torch.arange(6).view(3, 2),
        },
        (0, 1, 2),
    )


def logits(model, some):
    return VisualQuestionAnswering().run(model, some).logits


@pytest.mark.parametrize("options", VARIANTS, ids=IDS)
def test_a_question_alone_gives_what_it_gives_among_others(options):
    model, some = make(options).eval(), batch()
    together = logits(model, some)
    for row, number in ((0, 0), (0, 1), (1, 0), (2, 1)):
        length = int(some["attention_mask"][row, number].sum())
        alone = model(some["pixel_values"][row : row + 1], some["input_ids"][row, number : number + 1, :length]).logits
        torch.testing.assert_close(together[row, number : number + 1], alone, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("options", VARIANTS, ids=IDS)
def test_saved_and_loaded_without_allocating_twice(options, tmp_path):
    model = make(options)
    weights.write(tmp_path / "model.safetensors", model.state_dict())
    empty = make_model("vqa", model.config, empty=True)
    assert all(parameter.is_meta for parameter in empty.parameters())
    weights.load_into(empty, weights.aligned(weights.read_tensors(tmp_path / "model.safetensors")))
    assert torch.equal(logits(empty.eval(), batch()), logits(model.eval(), batch()))


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("options", VARIANTS, ids=IDS)
def test_watching_changes_no_bit(options, training):
    model, some = make(options).train(training), batch()
    torch.manual_seed(3)
    alone = logits(model, some)
    torch.manual_seed(3)
    with regard.watch() as record:
        watched = logits(model, some)
    assert torch.equal(alone, watched)
    looks = record.calls("look")
    assert len(looks) == model.config.hops
    assert all(look.weights.shape == (3, 1, 2, 16) for look in looks)
    differs = options.get("differential", "none") != "none" and not training
    assert ("supporting" in record.sites) == ("opposing" in record.sites) == differs


@pytest.mark.parametrize("low", [False, True])
@pytest.mark.parametrize("options", VARIANTS, ids=IDS)
def test_every_parameter_learns_but_those_of_a_frozen_encoder(options, low):
    model, some = make(options).train(), batch()
    with torch.autocast("cpu", torch.bfloat16, enabled=low):
        loss = VisualQuestionAnswering(label_smoothing=0.1).loss(model, some)
    loss.backward()
    learnt = {key for key, parameter in model.named_parameters() if parameter.grad is not None and parameter.grad.any()}
    # The bias of a key moves all scores of a row alike, which the softmax does not see.
    silent = {key for key, _ in model.named_parameters() if not key.endswith("key.bias")} - learnt
    assert {key for key in silent if not key.startswith("encoder.")} == set()
    assert any(key.startswith("encoder.") for key in silent) == model.config.frozen
    assert model.encoder.training != model.config.frozen
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters() if parameter.grad is not None)


@pytest.mark.parametrize("options", [{}, {"differential": "dan"}, {"differential": "dcn", "question": "transformer"}])
def test_one_batch_is_learnt_by_heart(options):
    model, some, task = make({**options, "dropout": 0.0}).train(), batch(), VisualQuestionAnswering()
    optimizer = make_optimizer(model, TrainingConfig(lr=2e-2, max_steps=1))
    for _ in range(60):
        loss = task.loss(model, some) / task.count(some)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert task.summary(task.measure(model, some)) == {"loss": pytest.approx(0, abs=0.1), "accuracy": 1.0}


def test_each_look_adds_what_it_saw():
    """u_k = ṽ_k + u_{k−1} (Yang et al. 2016)."""
    model, some = make({"hops": 2}).eval(), batch()
    ids, mask = some["input_ids"][:, 0], some["attention_mask"][:, 0]
    with regard.watch(parts=True) as record, torch.no_grad():
        output = model(some["pixel_values"], ids, mask)
        state = model.question(ids, mask)
    for hop, look in enumerate(record.calls("look")):
        torch.testing.assert_close(look.query[:, 0, 0], state)
        state = state + (look.weights @ look.values)[:, 0, 0]
        torch.testing.assert_close(output.hidden[:, hop], state)


def test_exemplars_are_the_nearest_and_the_farthest_question_with_its_image():
    """A copy of an exemplar has itself as the supporting one; a place without a question is never chosen."""
    model = make({"differential": "dcn"}).eval()
    bank = model.bank
    for image in range(3):
        for number in range(2):
            if bank.attention_mask[image, number].any():
                ids, real = bank.input_ids[image, number], bank.attention_mask[image, number]
                chosen = model.exemplars_of(bank.pixel_values[image : image + 1], ids[real][None])
                assert int(chosen["supporting"]) == 2 * image + number
                assert int(chosen["opposing"]) not in (3, 2 * image + number)
    keys, known = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.9, 0.1], [2.0, 0.0], [0.5, 0.0], [-3.0, 0.0]])
    usable = torch.tensor([True, False, True, False])
    assert [int(each) for each in nearest_and_farthest(keys, known, usable)] == [0, 2]


def test_the_triplet_loss_is_that_of_the_paper():
    own, near, far = torch.tensor([3.0, 0.0]), torch.tensor([0.0, 2.0]), torch.tensor([1.0, 0.0])
    assert triplet(own, near, far, 0.2).item() == pytest.approx(2.2)  # ‖t − t⁺‖² = 2, ‖t − t⁻‖² = 0
    assert triplet(own, far, near, 0.2).item() == 0
    model, some = make({"differential": "dan", "dropout": 0.0, "triplet": 0.5, "hops": 1}), batch()
    model.train()
    model.encoder.eval()  # so that no image's features depend on the others
    penalty = VisualQuestionAnswering().run(model, some).penalty
    model.eval()
    expected = torch.zeros(3)
    for row, number in ((0, 0), (0, 1), (1, 0), (2, 0), (2, 1)):
        ids = some["input_ids"][row, number][some["attention_mask"][row, number]][None]
        with regard.watch() as record:
            model(some["pixel_values"][row : row + 1], ids)
        maps = [record[site].weights[0, 0, 0] for site in ("look", "supporting", "opposing")]
        expected[row] += 0.5 * triplet(*maps, model.config.margin)
    torch.testing.assert_close(penalty, expected, atol=1e-5, rtol=1e-4)


def test_the_differential_context_is_that_of_the_paper():
    """r⁺ is the part of the exemplars along s, r⁻ the part across it."""
    part = DifferentialContext(2)
    with torch.no_grad():
        part.own.weight.zero_()
        part.own.bias.zero_()
        part.along.weight.copy_(torch.eye(2))
        part.across.weight.copy_(torch.eye(2))
        made = part(torch.tensor([2.0, 0.0]), torch.tensor([0.3, 0.4]), torch.tensor([0.1, -0.1]))
    torch.testing.assert_close(made, torch.tanh(torch.tensor([0.4, -0.3])))


def test_what_does_not_fit_is_refused():
    with pytest.raises(ConfigError, match="no grid of features"):
        make({"encoder": "vit", "encoder_options": {"d_model": 12, "n_layers": 1, "n_heads": 2}})
    with pytest.raises(ConfigError, match="heads do not divide"):
        make({"question": "transformer", "n_heads": 5})
