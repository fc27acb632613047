"""What every model that captions images must keep, in its variants."""

import pytest
import torch

import regard
from regard.core import lookup, weights
from regard.core.batch import Batch, pad
from regard.core.errors import ConfigError, ShapeError
from regard.models import config_of, make_model
from regard.tasks.captioning import Captioning
from regard.training.config import TrainingConfig
from regard.training.optim import make_optimizer

ENCODER = {"encoder": "resnet", "encoder_options": {"image_size": 8, "widths": (6, 8), "blocks": 1}}
SMALL = {
    "show_tell": {"vocab_size": 23, **ENCODER, "d_embedding": 10, "d_hidden": 12, "dropout": 0.1},
    "show_attend_tell": {
        **{"vocab_size": 23, **ENCODER, "d_embedding": 10, "d_hidden": 12, "dropout": 0.1},
        **{"d_memory": 14, "d_attention": 9},
    },
}
VARIANTS = [
    ("show_tell", {}),
    ("show_tell", {"frozen": False}),
    *(("show_attend_tell", {"gate": gate}) for gate in ("none", "scalar", "vector")),
    *(
        ("show_attend_tell", {"score": score})
        for score in lookup.names("regard.attention.scores")
        if score != "location"
    ),
    ("show_attend_tell", {"attention": "hard"}),
    ("show_attend_tell", {"attention": "hard", "expected": 0.0, "tie": True}),
    ("show_attend_tell", {"frozen": False, "tie": True, "coverage": 0.0}),
]
IDS = [f"{name}-{'-'.join(str(value) for value in options.values())}" for name, options in VARIANTS]


def make(name, options):
    torch.manual_seed(0)
    return make_model(name, config_of(name, {**SMALL[name], **options}))


def batch(lengths=(4, 6, 2)):
    generator = torch.Generator().manual_seed(1)
    rows = [[2, *torch.randint(4, 23, (length,), generator=generator).tolist(), 3] for length in lengths]
    target, mask = pad(rows, value=0)
    pixels = torch.randn(len(lengths), 3, 8, 8, generator=generator)
    return Batch({"pixel_values": pixels, "target": target, "target_mask": mask})


def logits(model, some):
    return Captioning().run(model, some).logits


@pytest.mark.parametrize(("name", "options"), VARIANTS, ids=IDS)
def test_one_token_at_a_time_equals_all_at_once(name, options):
    model, some = make(name, options).eval(), batch()
    whole = logits(model, some)
    with torch.no_grad():
        rows = torch.arange(3)
        state = model.new_state(sources=3, paths=3, capacity=2)
        state.begin(rows, rows)
        model.read({"pixel_values": some["pixel_values"]}, state, rows)
        steps = [model.step(some["target"][:, t : t + 1], torch.ones_like(rows), rows, state) for t in range(3)]
        left = some["target"][:, 3:-1]
        rest = model.step(left, torch.full_like(rows, left.shape[1]), rows, state)
    torch.testing.assert_close(torch.stack(steps, 1), whole[:, :3], atol=1e-5, rtol=0)
    torch.testing.assert_close(rest, whole[:, -1], atol=1e-5, rtol=0)


@pytest.mark.parametrize(("name", "options"), VARIANTS, ids=IDS)
def test_the_rest_of_the_batch_changes_nothing(name, options):
    model, lengths, some = make(name, options).eval(), (4, 6, 2), batch()
    together = logits(model, some)
    for row, length in enumerate(lengths):
        alone = model(some["target"][row : row + 1, : length + 1], some["pixel_values"][row : row + 1]).logits
        torch.testing.assert_close(together[row : row + 1, : length + 1], alone, atol=1e-5, rtol=0)


@pytest.mark.parametrize(("name", "options"), VARIANTS, ids=IDS)
def test_features_of_the_encoder_stand_for_the_image(name, options):
    model, some = make(name, options).eval(), batch()
    with torch.no_grad():
        features = model.encoder.grid(some["pixel_values"])
        for seen in (features, features.mean(1, keepdim=True)) if model.whole else (features,):
            kept = model(some["target"][:, :-1], features=seen).logits
            torch.testing.assert_close(kept, logits(model, some), atol=1e-5, rtol=0)


@pytest.mark.parametrize(("name", "options"), VARIANTS, ids=IDS)
def test_saved_and_loaded_without_allocating_twice(name, options, tmp_path):
    model = make(name, options)
    weights.write(tmp_path / "model.safetensors", model.state_dict())
    empty = make_model(name, model.config, empty=True)
    assert all(parameter.is_meta for parameter in empty.parameters())
    weights.load_into(empty, weights.aligned(weights.read_tensors(tmp_path / "model.safetensors")))
    assert torch.equal(logits(empty.eval(), batch()), logits(model.eval(), batch()))


@pytest.mark.parametrize(("name", "options"), VARIANTS, ids=IDS)
def test_watching_changes_no_bit(name, options):
    model, some = make(name, options), batch()
    torch.manual_seed(3)
    alone = logits(model, some)
    torch.manual_seed(3)
    with regard.watch() as record:
        watched = logits(model, some)
    assert torch.equal(alone, watched)
    if model.coverage_site is not None:
        looked = torch.cat([entry.weights for entry in record.calls(model.coverage_site)], 2)
        assert looked.shape == (3, 1, some["target"].shape[1] - 1, 16)


@pytest.mark.parametrize("low", [False, True])
@pytest.mark.parametrize(("name", "options"), VARIANTS, ids=IDS)
def test_every_parameter_learns_but_those_of_a_frozen_encoder(name, options, low):
    model, some = make(name, options), batch()
    with torch.autocast("cpu", torch.bfloat16, enabled=low):
        loss = Captioning(label_smoothing=0.1).loss(model.train(), some)
    loss.backward()
    learnt = {key for key, parameter in model.named_parameters() if parameter.grad is not None and parameter.grad.any()}
    silent = {key for key, _ in model.named_parameters() if not key.endswith("key.bias")} - learnt
    frozen = model.config.frozen
    assert all(key.startswith("encoder.") == frozen for key in silent if frozen or key in silent)
    assert not frozen or not any(key.startswith("encoder.") for key in learnt)
    assert model.encoder.training != frozen
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters() if parameter.grad is not None)


@pytest.mark.parametrize(
    ("name", "options"),
    [("show_tell", {}), ("show_attend_tell", {"coverage": 0.1}), ("show_attend_tell", {"attention": "hard"})],
)
def test_one_batch_is_learnt_by_heart(name, options):
    model, some, task = make(name, {**options, "dropout": 0.0}).train(), batch(), Captioning()
    optimizer = make_optimizer(model, TrainingConfig(lr=2e-2, max_steps=1))
    for _ in range(120):
        loss = task.loss(model, some) / task.count(some)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert task.summary(task.measure(model.eval(), some))["loss"] < 0.1


def test_the_penalty_is_that_of_the_paper():
    """λ Σ_i (1 − Σ_t α_ti)² over the words of each caption, those that are padding left out."""
    model, some = make("show_attend_tell", {"dropout": 0.0, "coverage": 0.5}).train(), batch()
    with regard.watch() as record:
        output = Captioning().run(model, some)
    weights_BTP = torch.cat([entry.weights[:, 0] for entry in record.calls("look")], 1)
    for row, length in enumerate((4, 6, 2)):
        seen = weights_BTP[row, : length + 1].sum(0)
        torch.testing.assert_close(output.penalty[row], 0.5 * (1 - seen).square().sum())


def test_hard_attention_learns_where_to_look_by_reward():
    """The gradient of the scores is that of −λ_r (log p(y_t) − b) log p(s_t) − λ_e H, and of the soft rows."""
    model, some = make("show_attend_tell", {"attention": "hard", "expected": 0.0, "dropout": 0.0}).train(), batch()
    torch.manual_seed(5)
    output = Captioning().run(model, some)
    assert output.log_prob.shape == (3, some["target"].shape[1] - 1)
    assert (output.log_prob <= 0).all()
    (slope,) = torch.autograd.grad(output.log_prob.sum(), model.score.v.weight)
    assert slope.any()
    torch.manual_seed(5)
    expected = make("show_attend_tell", {"attention": "hard", "expected": 1.0, "dropout": 0.0}).train()
    assert not Captioning().run(expected, some).log_prob.any(), "nothing was sampled"


def test_what_does_not_fit_is_refused():
    model = make("show_attend_tell", {})
    with pytest.raises(ShapeError, match=r"features do not fit.*got \[2, 5, 7\], expected \[B, cells, 8\]"):
        model(torch.ones(2, 3, dtype=torch.long), features=torch.zeros(2, 5, 7))
    with pytest.raises(ShapeError, match="there is no image"):
        model(torch.ones(2, 3, dtype=torch.long))
    with pytest.raises(ConfigError, match="no grid of features"):
        make("show_tell", {"encoder": "vit", "encoder_options": {"d_model": 12, "n_layers": 1, "n_heads": 2}})
