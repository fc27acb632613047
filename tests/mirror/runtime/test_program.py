"""A step in C is the step of the model: every activation, norm, order of norms, kind of heads and positions."""

import pytest
import torch

from regard.models import config_of, make_model
from regard.runtime import choose
from regard.runtime.native import Missing, kernels

pytestmark = pytest.mark.skipif(isinstance(kernels(), Missing), reason="no C compiler to build the kernels with")

SMALL = {"source_vocab": 70, "target_vocab": 70, "d_model": 24, "n_heads": 2, "d_ff": 40, "n_encoder_layers": 1,
         "n_decoder_layers": 2}  # fmt: skip
LLAMA = {"vocab_size": 70, "d_model": 32, "n_heads": 4, "n_kv_heads": 2, "d_ff": 40, "n_layers": 2, "max_len": 32}


def logits(model, runner, *, rows=5, steps=4):
    """Of some steps; the rows begin at unlike lengths."""
    state = runner.new_state(sources=rows, paths=rows, capacity=2)
    paths = torch.arange(rows)
    state.begin(paths, paths)
    if hasattr(model, "encoder"):
        source = torch.arange(rows * 6).view(rows, 6) % 60 + 4
        mask = torch.arange(6) < torch.tensor([[6], [3], [1], [4], [6]])
        runner.read({"source": source, "source_mask": mask}, state, paths)
    seen = []
    with torch.inference_mode():
        for step in range(steps):
            live = paths[step % 2 :]  # the first row misses every second step
            tokens = (7 * live[:, None] + step) % 60 + 4
            seen.append(runner.step(tokens, torch.ones_like(live), live, state))
    return torch.cat(seen)


def check(name, options):
    torch.manual_seed(1)
    model = make_model(name, config_of(name, options)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    choice = choose(model, "float32")
    assert choice.engine == "float32", choice.reason
    expected = logits(model, model)
    assert expected.std() > 0.1
    torch.testing.assert_close(logits(model, choice.model), expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("activation", ["relu", "gelu", "gelu_tanh", "quick_gelu", "silu", "tanh", "swiglu"])
def test_activations(activation):
    check("transformer", {**SMALL, "activation": activation})


@pytest.mark.parametrize("order", ["pre", "post"])
@pytest.mark.parametrize("norm", ["layer", "rms"])
def test_norms(norm, order):
    check("transformer", {**SMALL, "norm": norm, "order": order})


def test_grouped_heads_with_turned_pairs():
    check("llama", LLAMA)


def test_turned_pairs_of_neighbours():
    check("transformer", {**SMALL, "position": "rotary"})


def test_a_window():
    torch.manual_seed(1)
    model = make_model("llama", config_of("llama", LLAMA)).eval()
    model.reach = 2
    prepared = choose(model, "float32").model
    torch.testing.assert_close(logits(model, prepared), logits(model, model), atol=1e-4, rtol=1e-4)


def test_buffers_grow_with_rows_and_lengths():
    """The list of operations is made again for more rows and for longer texts, and smaller steps still use it."""
    torch.manual_seed(1)
    model = make_model("llama", config_of("llama", LLAMA)).eval()
    prepared = choose(model, "float32").model
    few = logits(model, prepared, rows=2, steps=2)
    many = logits(model, prepared, rows=5, steps=20)
    torch.testing.assert_close(many, logits(model, model, rows=5, steps=20), atol=1e-4, rtol=1e-4)
    assert torch.equal(logits(model, prepared, rows=2, steps=2), few)
