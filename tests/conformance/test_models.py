"""What every model that generates token by token must keep, found by folder listing, in many configurations."""

import pytest
import torch

import regard
from regard import models
from regard.core import lookup, weights
from regard.core.batch import Batch, pad
from regard.core.errors import ConfigError, LengthError, ShapeError
from regard.models import config_of, make_model
from regard.tasks.translation import Translation
from regard.training.config import TrainingConfig
from regard.training.optim import make_optimizer

VOCAB = {"source_vocab": 23, "target_vocab": 23}
SMALL = {
    "transformer": {"d_model": 16, "n_heads": 4, "d_ff": 32, "n_encoder_layers": 2, "n_decoder_layers": 2},
    "seq2seq": {"d_embedding": 12, "d_hidden": 16},
    "lstmn_seq2seq": {"d_embedding": 12, "d_hidden": 16},
}
POSITIONS = lookup.names("regard.attention.positions")
SCORES = lookup.names("regard.attention.scores")
CHOOSERS = lookup.names("regard.attention.choosers")
VARIANTS = [
    *(("transformer", {"position": position, "order": order}) for position in POSITIONS for order in ("pre", "post")),
    ("transformer", {"share": "none", "norm": "rms", "activation": "swiglu"}),
    ("transformer", {"order": "none"}),
    ("transformer", {"share": "target", "attention_dropout": 0.1, "activation": "gelu"}),
    ("seq2seq", {"attention": "none"}),
    *(("seq2seq", {"cell": cell, "n_layers": n, "attention": style}) for cell in ("elman", "gru", "lstm")
      for n in (1, 2) for style in ("bahdanau", "luong", "none")),
    *(("seq2seq", {"attention": style, "score": score, "reach": reach, "radius": 2}) for style in ("bahdanau", "luong")
      for score in SCORES for reach in ("global", "local_m", "local_p")),
    *(("seq2seq", {"attention": "luong", "chooser": chooser, "input_feeding": False, "reach": reach, "radius": 2})
      for chooser in CHOOSERS for reach in ("global", "local_m", "local_p")),
    *(("lstmn_seq2seq", {"fusion": fusion, "n_layers": n}) for fusion in ("shallow", "deep") for n in (1, 2)),
    ("seq2seq", {"attention": "bahdanau", "chooser": "hard", "bidirectional": False, "score": "dot"}),
]  # fmt: skip
IDS = [f"{name}-{'-'.join(str(value) for value in options.values())}" for name, options in VARIANTS]


def make(name: str, options: dict) -> torch.nn.Module:
    torch.manual_seed(0)
    return make_model(name, config_of(name, {**VOCAB, **SMALL[name], **options}))


def batch(lengths=((5, 4), (3, 6), (8, 2))) -> Batch:
    generator = torch.Generator().manual_seed(1)
    source, source_mask = pad([torch.randint(4, 23, (s,), generator=generator).tolist() for s, _ in lengths], value=0)
    target, target_mask = pad(
        [[2, *torch.randint(4, 23, (t,), generator=generator).tolist(), 3] for _, t in lengths], value=0
    )
    return Batch({"source": source, "source_mask": source_mask, "target": target, "target_mask": target_mask})


def logits(model: torch.nn.Module, some: Batch) -> torch.Tensor:
    return model(some["source"], some["source_mask"], some["target"][:, :-1]).logits


def test_every_model_is_covered():
    from tests.conformance.test_captioners import SMALL as CAPTIONERS
    from tests.conformance.test_checkpoint_models import SMALL as OTHERS
    from tests.conformance.test_question_models import SMALL as QUESTIONED
    from tests.conformance.test_word_vector_models import SMALL as WORD_VECTORS

    assert set(lookup.names(models.__name__)) == {*SMALL, *CAPTIONERS, *OTHERS, *QUESTIONED, *WORD_VECTORS}


@pytest.mark.parametrize(
    ("name", "options", "longest"),
    [
        ("transformer", {"position": "learned", "max_len": 9}, 9), ("transformer", {"position": "rotary"}, None),
        ("seq2seq", {"score": "location", "max_len": 9}, 9), ("seq2seq", {"score": "dot"}, None),
        ("seq2seq", {"score": "location", "attention": "none"}, None),
    ],
)  # fmt: skip
def test_the_longest_input_follows_from_the_configuration(name, options, longest):
    model = make(name, options)
    assert model.longest == type(model).longest_of(model.config) == longest


@pytest.mark.parametrize(("name", "options"), VARIANTS, ids=IDS)
def test_one_token_at_a_time_equals_all_at_once(name, options):
    model, some = make(name, options).eval(), batch()
    whole = logits(model, some)
    with torch.no_grad():
        rows = torch.arange(len(whole))
        state = model.new_state(sources=3, paths=3, capacity=2)
        state.begin(rows, rows)
        model.read({"source": some["source"], "source_mask": some["source_mask"]}, state, rows)
        steps = [model.step(some["target"][:, t : t + 1], torch.ones_like(rows), rows, state) for t in range(3)]
        left = some["target"][:, 3:-1]
        rest = model.step(left, torch.full_like(rows, left.shape[1]), rows, state)
    torch.testing.assert_close(torch.stack(steps, 1), whole[:, :3], atol=1e-5, rtol=0)
    torch.testing.assert_close(rest, whole[:, -1], atol=1e-5, rtol=0)


@pytest.mark.parametrize(("name", "options"), VARIANTS, ids=IDS)
def test_the_rest_of_the_batch_changes_nothing(name, options):
    model, lengths = make(name, options).eval(), ((5, 4), (3, 6), (8, 2))
    together = logits(model, batch(lengths))
    some = batch(lengths)
    for row, (s, t) in enumerate(lengths):
        alone = model(
            some["source"][row : row + 1, :s],
            some["source_mask"][row : row + 1, :s],
            some["target"][row : row + 1, : t + 1],
        ).logits
        torch.testing.assert_close(together[row : row + 1, : t + 1], alone, atol=1e-5, rtol=0)


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
        assert looked.shape[2:] == (some["target"].shape[1] - 1, some["source"].shape[1])
        assert (looked.masked_select(~some["source_mask"][:, None, None].expand_as(looked)) == 0).all()


@pytest.mark.parametrize(("name", "options"), VARIANTS, ids=IDS)
def test_every_parameter_learns(name, options):
    model, some = make(name, options), batch()
    Translation(label_smoothing=0.1).loss(model, some).backward()
    silent = [
        key
        for key, parameter in model.named_parameters()
        if parameter.grad is None or not parameter.grad.abs().sum() > 0
    ]
    if options.get("chooser") in ("sparsemax", "entmax15", "hard"):
        silent = [key for key in silent if not key.startswith(("score", "centre"))]
    # A key projection's bias moves all scores of a row alike, which the softmax does not see.
    assert not [key for key in silent if not key.endswith("key.bias")]


@pytest.mark.parametrize(("name", "options"), VARIANTS, ids=IDS)
def test_trains_in_lower_precision(name, options):
    model, some = make(name, options), batch()
    with torch.autocast("cpu", torch.bfloat16):
        loss = Translation(label_smoothing=0.1).loss(model, some)
    loss.backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters() if parameter.grad is not None)


LEARNERS = [v for v in VARIANTS if v[1].get("reach", "global") == "global" and v[1].get("chooser") != "hard"][::3]


@pytest.mark.parametrize(
    ("name", "options"),
    [pytest.param(*v, marks=[pytest.mark.slow] if number % 2 else []) for number, v in enumerate(LEARNERS)],
    ids=lambda value: str(value),
)
def test_one_batch_is_learnt_by_heart(name, options):
    model, some, task = make(name, {**options, "dropout": 0.0}), batch(), Translation()
    optimizer = make_optimizer(model, TrainingConfig(lr=1e-2, max_steps=1))
    for _ in range(150):
        loss = task.loss(model, some) / task.count(some)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.05


def test_published_sizes():
    """The paper's 65M and 213M parameters with a shared vocabulary of 37,000, counted without allocating them."""
    for size, millions in (("base", 63), ("big", 214)):
        config = config_of("transformer", {"source_vocab": 37000, "target_vocab": 37000}, size=size)
        count = sum(parameter.numel() for parameter in make_model("transformer", config, empty=True).parameters())
        assert round(count / 1e6) == millions


def test_learned_positions_end_with_a_clear_error():
    model = make("transformer", {"position": "learned", "max_len": 4})
    with pytest.raises(LengthError, match="at most 4"):
        logits(model, batch())


def test_two_vocabularies_share_no_embedding():
    with pytest.raises(ShapeError, match="23 and 24 tokens.*share: target"):
        make("transformer", {"target_vocab": 24})


@pytest.mark.parametrize("options", [{"n_heads": 0}, {"d_model": -4}, {"n_encoder_layers": 0}, {"max_len": 0}])
def test_sizes_are_bounded(options):
    with pytest.raises(ConfigError, match=next(iter(options))):
        make("transformer", options)
