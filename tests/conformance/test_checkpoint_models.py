"""What every model that reads one sequence or one image must keep: decoders, encoders, and their heads."""

import numpy as np
import pytest
import torch
from tests.system.small_models import fit_on_ids

import regard
from regard.core import lookup, weights
from regard.core.errors import LengthError
from regard.data.text.spelling import spelled
from regard.models import config_of, make_model

SMALL = {
    "gpt2": {"vocab_size": 23, "max_len": 16, "d_model": 24, "n_layers": 2, "n_heads": 3},
    "llama": {"vocab_size": 23, "max_len": 16, "d_model": 24, "n_layers": 2, "n_heads": 6, "n_kv_heads": 2, "d_ff": 40},
    "bert": {"vocab_size": 23, "max_len": 16, "d_model": 24, "n_layers": 2, "n_heads": 3, "d_ff": 40},
    "encoder": {"vocab_size": 23, "max_len": 16, "d_model": 24, "n_layers": 2, "n_heads": 3, "d_ff": 40},
    "ngram": {"vocab_size": 23, "order": 3},
    "window_lm": {"vocab_size": 23, "d_embedding": 8, "hidden": (12,), "window": 3},
    "dan": {"vocab_size": 23, "d_embedding": 8, "hidden": (12, 10)},
    "bow": {"vocab_size": 23},
    "rnn": {"vocab_size": 23, "d_embedding": 8, "d_hidden": 10, "n_layers": 2},
    "han": {"vocab_size": 23, "d_embedding": 8, "d_hidden": 5, "max_words": 3},
    "lstmn": {"vocab_size": 23, "d_embedding": 8, "d_hidden": 10, "n_layers": 2, "span": 4, "d_attention": 7},
    "elmo": {"vocab_size": 23, "filters": ((1, 5), (3, 6)), "d_projection": 6, "d_hidden": 8, "d_task": 7},
    "ntm": {"d_input": 6, "d_output": 4, "d_controller": 10, "n_rows": 9, "d_row": 5},
    "vit": {"image_size": 8, "patch_size": 4, "d_model": 24, "n_layers": 2, "n_heads": 3, "d_ff": 40},
    "resnet": {"image_size": 8, "widths": (6, 8), "blocks": 1},
    "fourier": {"n_frequencies": 6, "d_hidden": 10, "n_layers": 2},
    "efficientnet_lite": {"image_size": 8, "d_stem": 6, "stages": ((1, 3, 1, 1, 5), (2, 5, 2, 2, 7)), "d_model": 9},
    # As a policy; as a few-shot learner in tests/mirror/models/test_snail.py.
    "snail": {"head": "policy", "n_outputs": 3, "seq_len": 10, "d_input": 6, "d_model": 5, "blocks": ((4,), (6, 7))},
}
IMAGE_MODELS = ("vit", "resnet", "efficientnet_lite")
WITHOUT_TOKENS = (*IMAGE_MODELS, "fourier")
POSITIONS = lookup.names("regard.attention.positions")
LANGUAGE_MODELS = [
    *(("gpt2", {"position": position}) for position in POSITIONS),
    ("gpt2", {"tie": False, "activation": "relu", "scaled": False}),
    ("llama", {}),
    ("llama", {"tie": True, "n_kv_heads": None, "bias": True, "feedforward_bias": True}),
    ("llama", {"scaling": "linear", "factor": 2.0}),
    ("llama", {"scaling": "ntk", "factor": 4.0}),
    ("llama", {"scaling": "llama3", "factor": 4.0, "trained_len": 8}),
    ("llama", {"scaling": "yarn", "factor": 4.0, "d_head": 10}),
    ("llama", {"bias": True, "output_bias": False}),
    ("llama", {"window": 3}),
    ("gpt2", {"layer_scaled": True}),
    ("ngram", {}),
    ("ngram", {"order": 5, "smoothing": "add_k", "k": 0.1}),
    ("ngram", {"order": 1}),
    ("window_lm", {}),
    ("window_lm", {"direct": True, "window": 1, "hidden": ()}),
    ("dan", {}),
    *(("rnn", {"cell": cell}) for cell in ("elman", "gru", "lstm")),
    ("rnn", {"tie": True, "d_hidden": 8, "n_layers": 1, "spread": 0.1}),
    ("rnn", {"dropout": 0.3}),
    ("rnn", {"dropout": 0.3, "variational": True}),
    ("lstmn", {}),
    ("lstmn", {"tie": True, "d_hidden": 8, "n_layers": 1, "spread": 0.1, "span": 2}),
    ("lstmn", {"dropout": 0.3, "span": 50}),
]
HEADS = ("none", "masked_lm", "next_sentence", "pretraining", "classes", "token_classes", "span", "sentence")
OTHER_MODELS = [
    *(("bert", {"head": head, "n_labels": 3}) for head in HEADS),
    ("bert", {"head": "masked_lm", "tie": False}),
    ("bert", {"head": "sentence", "pooling": "first"}),
    ("bert", {"head": "sentence", "pooling": "max"}),
    ("gpt2", {"head": "classes", "n_labels": 3}),
    ("llama", {"head": "classes", "n_labels": 3, "tie": True}),
    *(
        ("bow", {"features": features, "n_labels": 3, "hidden": hidden})
        for features in ("counts", "binary", "tf_idf", "lexicon")
        for hidden in ((), (6,), (6, 5))
    ),
    ("bow", {"features": "tf_idf", "sublinear": True}),
    ("dan", {"head": "classes", "n_labels": 3}),
    *(
        ("rnn", {"head": head, "n_labels": 3, "bidirectional": both, "cell": cell})
        for head, both, cell in (("classes", False, "lstm"), ("classes", True, "gru"), ("token_classes", True, "lstm"))
    ),
    ("lstmn", {"head": "classes", "n_labels": 3}),
    *(("han", {"pooling": pooling, "cell": cell}) for pooling in ("attention", "mean") for cell in ("gru", "lstm")),
    *(("encoder", {"position": position, "pooling": "mean"}) for position in POSITIONS),
    *(("encoder", {"pooling": pooling, "order": "post"}) for pooling in ("first", "mean", "max")),
    ("encoder", {"n_labels": 1, "position": "learned"}),
    *(("elmo", {"head": head, "n_labels": 3}) for head in ("tokens", "classes", "token_classes")),
    ("elmo", {"n_highway": 0, "d_projection": 8, "n_layers": 1}),
    ("elmo", {"head": "classes", "n_labels": 3, "d_embedding": 5}),
    *(("ntm", {"controller": controller}) for controller in ("lstm", "feedforward")),
    ("ntm", {"n_reads": 2, "n_writes": 3, "reach": 2}),
    ("ntm", {"n_reads": 0, "n_writes": 0}),
    ("vit", {}),
    ("vit", {"n_labels": 3, "bias": False}),
    ("vit", {"n_labels": 3, "distilled": True}),
    ("vit", {"n_labels": 3, "distilled": True, "teacher": True}),
    ("resnet", {}),
    ("resnet", {"n_labels": 3, "stem": "large", "dropout": 0.1}),
    *(("fourier", {"features": features}) for features in ("plain", "basic", "positional", "gaussian")),
    ("efficientnet_lite", {"n_labels": 0}),
    ("efficientnet_lite", {"n_labels": 3}),
    ("snail", {}),
    ("snail", {"blocks": ((3, 4), (5,), (6, 2))}),
]


def own_sites(model):
    """The attention of models that have other sites than a self-attention in each layer."""
    config = model.config
    if hasattr(config, "n_rows"):
        return ["memory.write", "memory.read"] if model.n_heads else []
    if hasattr(config, "seq_len"):
        return [f"decoder.{number}.self" for number, sizes in enumerate(config.blocks) if len(sizes) == 2]
    if hasattr(config, "span"):
        side = "decoder" if config.head == "tokens" else "encoder"
        return [f"{side}.{layer}.tape" for layer in range(config.n_layers)]
    return ["word_attention", "sentence_attention"] if getattr(config, "pooling", None) == "attention" else []


def name_of(value):
    return value if isinstance(value, str) else "-".join(f"{v}" for v in value.values())


def make(name, options):
    torch.manual_seed(0)
    model = make_model(name, config_of(name, {**SMALL[name], **options}))
    if name == "ngram":
        fit_on_ids(model, torch.randint(3, 23, (400,), generator=torch.Generator().manual_seed(7)).tolist())
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def inputs(name, lengths=(5, 3, 8), *, left=False):
    generator = torch.Generator().manual_seed(1)
    if name in IMAGE_MODELS:
        return {"pixel_values": torch.randn(len(lengths), 3, 8, 8, generator=generator)}
    if name == "fourier":
        return {"points": torch.rand(len(lengths), 2, generator=generator)}
    if name == "snail":
        return {"steps": torch.randn(len(lengths), max(lengths), 6, generator=generator)}
    if name == "ntm":
        return {"bits": torch.randint(2, (len(lengths), max(lengths), 6), generator=generator).float()}
    ids, mask = (
        torch.zeros(len(lengths), max(lengths), dtype=torch.long),
        torch.zeros(len(lengths), max(lengths)).bool(),
    )
    for row, length in enumerate(lengths):
        where = slice(max(lengths) - length, None) if left else slice(0, length)
        ids[row, where], mask[row, where] = torch.randint(1, 23, (length,), generator=generator), True
    if name == "elmo":
        words = torch.from_numpy(np.stack([spelled(chr(96 + n) * n) for n in range(23)]))[ids]
        characters = words.masked_fill(~mask[..., None], 0)
        return {"input_ids": ids, "characters": characters, "attention_mask": mask}
    return {"input_ids": ids, "attention_mask": mask}


def numbers(output):
    """Everything that the model says, as one list of tensors."""
    parts = (output.hidden, output.logits, output.pooled, output.pair_logits, output.values)
    return [tensor for tensor in parts if tensor is not None]


@pytest.mark.parametrize(("name", "options"), LANGUAGE_MODELS, ids=name_of)
def test_one_token_at_a_time_equals_all_at_once(name, options):
    model = make(name, options).eval()
    ids = inputs(name, (9, 9))["input_ids"]
    with torch.no_grad():
        whole, rows = model(ids).logits, torch.arange(2)
        state = model.new_state(sources=2, paths=2, capacity=2)
        steps = [model.step(ids[:, t : t + 1], torch.ones_like(rows), rows, state) for t in range(4)]
        rest = model.step(ids[:, 4:], torch.full_like(rows, ids.shape[1] - 4), rows, state)
    torch.testing.assert_close(torch.stack(steps, 1), whole[:, :4], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(rest, whole[:, -1], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize(("name", "options"), LANGUAGE_MODELS, ids=name_of)
def test_padding_on_either_side_changes_nothing(name, options, left):
    model, lengths = make(name, options).eval(), (5, 3, 8)
    some = inputs(name, lengths, left=left)
    with torch.no_grad():
        together = model(**some).logits
        for row in range(len(lengths)):
            real = some["attention_mask"][row]
            alone = model(some["input_ids"][row : row + 1, real]).logits[0]
            torch.testing.assert_close(together[row, real], alone, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("name", "options"), OTHER_MODELS, ids=name_of)
def test_the_rest_of_the_batch_changes_nothing(name, options):
    model, lengths = make(name, options).eval(), (5, 3, 8)
    some = inputs(name, lengths)
    with torch.no_grad():
        together = numbers(model(**some))
        for row, length in enumerate(lengths):
            cut = {
                key: value[row : row + 1] if name in WITHOUT_TOKENS else value[row : row + 1, :length]
                for key, value in some.items()
            }
            for whole, other in zip(together, numbers(model(**cut)), strict=True):
                tokens = name not in WITHOUT_TOKENS and (whole.dim() >= 3 or name == "snail")
                wanted = whole[row : row + 1, :length] if tokens else whole[row : row + 1]
                torch.testing.assert_close(wanted, other, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("name", "options"), [*LANGUAGE_MODELS, *OTHER_MODELS], ids=name_of)
def test_saved_and_loaded_without_allocating_twice(name, options, tmp_path):
    model = make(name, options).eval()
    weights.write(tmp_path / "model.safetensors", model.state_dict())
    empty = make_model(name, model.config, empty=True)
    assert all(parameter.is_meta for parameter in empty.parameters())
    weights.load_into(empty, weights.aligned(weights.read_tensors(tmp_path / "model.safetensors")))
    for tensor, expected in zip(numbers(empty.eval()(**inputs(name))), numbers(model(**inputs(name))), strict=True):
        assert torch.equal(tensor, expected)


@pytest.mark.parametrize(("name", "options"), [*LANGUAGE_MODELS, *OTHER_MODELS], ids=name_of)
def test_watching_changes_no_bit_and_sees_every_layer(name, options):
    model, some = make(name, options), inputs(name)
    torch.manual_seed(3)
    alone = numbers(model(**some))
    torch.manual_seed(3)
    with regard.watch() as record:
        watched = numbers(model(**some))
    assert all(torch.equal(tensor, expected) for tensor, expected in zip(alone, watched, strict=True))
    side = "decoder" if name in ("gpt2", "llama") else "encoder"
    if "n_heads" not in SMALL[name]:
        assert sorted(record.sites) == sorted(own_sites(model))
        assert record.hidden
        return
    assert record.sites == [f"{side}.{layer}.self" for layer in range(2)]
    assert record[f"{side}.0.self"].weights.shape[1] == SMALL[name]["n_heads"]


@pytest.mark.parametrize(("name", "options"), [*LANGUAGE_MODELS, *OTHER_MODELS], ids=name_of)
def test_every_parameter_learns_in_either_precision(name, options):
    if name == "ngram":
        assert not list(make(name, options).parameters()), "it is counted"
        return
    for low in (False, True):
        model = make(name, options)
        with torch.autocast("cpu", torch.bfloat16, enabled=low):
            outputs = numbers(model(**inputs(name)))
            weighed = [
                (output.float() * torch.randn(output.shape, generator=torch.Generator().manual_seed(5))).sum()
                for output in outputs
            ]
        sum(weighed).backward()
        silent = [
            key
            for key, parameter in model.named_parameters()
            if parameter.grad is None or not parameter.grad.abs().sum() > 0
        ]
        # A key's bias moves all scores of a row alike; positions past the input were not used; "sentence" keeps a
        # pooler that it does not read.
        allowed = ("key.bias", *(("pooler.weight", "pooler.bias") if options.get("head") == "sentence" else ()))
        assert not [key for key in silent if not key.endswith(allowed)]
        assert all(parameter.grad.isfinite().all() for parameter in model.parameters() if parameter.grad is not None)


@pytest.mark.parametrize(
    ("name", "size", "options", "millions"),
    [
        ("gpt2", "small", {}, 124), ("gpt2", "medium", {}, 355), ("gpt2", "large", {}, 774), ("gpt2", "xl", {}, 1558),
        ("bert", "base", {}, 109), ("bert", "large", {}, 335), ("vit", "base", {"n_labels": 1000}, 87),
        ("vit", "base", {"n_labels": 1}, 86), ("vit", "large", {"n_labels": 1000}, 304), ("llama", "7b", {}, 6738),
        ("llama", "stories15m", {}, 15),
    ],
)  # fmt: skip
def test_published_sizes(name, size, options, millions):
    """Counted without allocating them. BERT's 110M and 340M are its papers' rounding of 109.5M and 335M."""
    model = make_model(name, config_of(name, options, size=size), empty=True)
    assert all(parameter.is_meta for parameter in model.parameters())
    assert round(sum(parameter.numel() for parameter in model.parameters()) / 1e6) == millions


@pytest.mark.parametrize("name", ["gpt2", "bert"])
def test_learned_positions_end_with_a_clear_error(name):
    with pytest.raises(LengthError, match="got 17 tokens, expected at most 16"):
        make(name, {})(**inputs(name, (17,)))


@pytest.mark.parametrize(
    ("name", "options", "longest"),
    [("gpt2", {}, 16), ("gpt2", {"position": "alibi"}, None), ("bert", {}, 16), ("llama", {}, None)],
)
def test_the_longest_input_follows_from_the_configuration(name, options, longest):
    model = make(name, options)
    assert model.longest == type(model).longest_of(model.config) == longest
