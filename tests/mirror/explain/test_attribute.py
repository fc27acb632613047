"""Attribution against plain loops of autograd, against captum, and the estimate against the exact norms."""

import pytest
import torch
from tests.conformance.explained import made

import regard
from regard.core import taps
from regard.explain import explain
from regard.explain.jacobian import run_to
from regard.explain.methods.attribute import attributed, labels_of

BLOCKS = ["bert-none", "bert-classes", "gpt2", "gpt2-alibi", "llama", "vit", "transformer", "transformer-post"]
OTHERS = ["seq2seq", "seq2seq-luong-lstm", "seq2seq-none"]


def by_loop(trace, layer, inputs):
    """One backward pass for each number of each state."""
    subject = trace.live().repeated(1)
    x = trace.hidden[inputs][:1].clone().requires_grad_()
    hidden = run_to(subject, layer, inputs, x)
    squares = torch.zeros(hidden.shape[1], x.shape[1], dtype=torch.float64)
    for token in range(hidden.shape[1]):
        for feature in range(hidden.shape[2]):
            (slope,) = torch.autograd.grad(hidden[0, token, feature], x, retain_graph=True)
            squares[token] += slope[0].double().square().sum(-1)
    return squares.sqrt()


@pytest.mark.parametrize("name", [*BLOCKS, *OTHERS])
def test_exact_norms_equal_a_double_loop(name):
    model, text, target = made(name)
    trace = regard.trace(model, text, target)
    for stack in ("encoder", "decoder"):
        for layer in trace.layers(stack)[:2]:
            wanted = by_loop(trace, layer, f"{stack}.input")
            plain = attributed(trace, layer, plain=True)
            torch.testing.assert_close(plain.norms, wanted, atol=1e-6, rtol=1e-5)
            torch.testing.assert_close(attributed(trace, layer).norms, wanted, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("name", BLOCKS)
def test_plain_blocks_take_the_short_way(name):
    model, text, target = made(name)
    trace = regard.trace(model, text, target)
    stack = "encoder" if trace.layers("encoder") else "decoder"
    assert attributed(trace, trace.layers(stack)[-1]).fast
    assert not attributed(trace, trace.layers(stack)[-1], plain=True).fast


def test_states_of_a_translator_by_its_source():
    model, text, target = made("transformer")
    trace = regard.trace(model, text, target)
    layer = trace.layers("decoder")[-1]
    attribution = attributed(trace, layer, inputs="encoder.input")
    assert attribution.squares.shape == (len(labels_of(trace, layer, 0)), len(trace.labels("source")))
    torch.testing.assert_close(attribution.norms, by_loop(trace, layer, "encoder.input"), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("name", BLOCKS)
def test_states_by_those_of_an_earlier_layer(name):
    model, text, target = made(name)
    trace = regard.trace(model, text, target)
    lower, upper = trace.layers("encoder" if trace.layers("encoder") else "decoder")[:2]
    wanted = by_loop(trace, upper, lower)
    torch.testing.assert_close(attributed(trace, upper, inputs=lower).norms, wanted, atol=1e-6, rtol=1e-5)


def test_a_longer_row_beside_it_changes_nothing():
    model, text, _ = made("bert-classes")
    together, alone = regard.trace(model, [text, f"{text} {text}"]), regard.trace(model, text)
    layer = alone.layers()[-1]
    torch.testing.assert_close(attributed(together, layer).norms, attributed(alone, layer).norms, atol=1e-5, rtol=1e-4)


def test_an_estimate_knows_its_error():
    """The exact value lies within three standard errors in 99 % of the entries, over many seeds; the mean is right, and
    the standard error is as large as the estimates' deviation."""
    model, text, _ = made("bert-classes")
    trace = regard.trace(model, text)
    exact = attributed(trace, "encoder.1").squares
    within, means, errors = [], [], []
    for seed in range(30):
        estimate = attributed(trace, "encoder.1", probes=64, seed=seed)
        within.append(((estimate.squares - exact).abs() <= 3 * estimate.error).double())
        means.append(estimate.squares)
        errors.append(estimate.error)
    assert float(torch.stack(within).mean()) >= 0.99
    torch.testing.assert_close(torch.stack(means).mean(0), exact, rtol=0.1, atol=0)
    deviation = (torch.stack(means) - exact).square().mean(0).sqrt()
    assert 0.8 < float((torch.stack(errors).mean(0) / deviation).median()) < 1.25


def scores_from(trace, x):
    with taps.alter({"encoder.input": lambda _, __: x}):
        return trace.live().repeated(len(x)).scores()


def test_integrated_gradients_equal_captums():
    captum = pytest.importorskip("captum.attr", reason="captum is not installed (pip install captum)")
    model, text, _ = made("bert-classes")
    trace = regard.trace(model, text)
    x = trace.hidden["encoder.input"]
    base = x.mean(1, keepdim=True).expand_as(x)
    theirs = captum.IntegratedGradients(lambda vectors: scores_from(trace, vectors)).attribute(
        x, base, n_steps=48, method="gausslegendre"
    )
    ours = explain(trace, method="attribute", how="integrated", steps=48)
    assert ours.data["encoder.input"]["values"] == pytest.approx(theirs[0].sum(-1).tolist(), abs=1e-5)
    assert abs(ours.data["completeness_error"]) < 1e-3
    product = captum.InputXGradient(lambda vectors: scores_from(trace, vectors)).attribute(x.clone().requires_grad_())
    zero = explain(trace, method="attribute", how="gradient", baseline="zero")
    assert zero.data["encoder.input"]["values"] == pytest.approx(product[0].sum(-1).tolist(), abs=1e-5)


def test_occlusion_is_the_difference():
    model, text, _ = made("bert-classes")
    trace = regard.trace(model, text)
    x = trace.hidden["encoder.input"]
    values = explain(trace, method="attribute", how="occlusion", baseline="zero").data["encoder.input"]["values"]
    with torch.no_grad():
        whole = float(scores_from(trace, x)[0])
        for place, value in enumerate(values):
            without = x.clone()
            without[0, place] = 0
            assert value == pytest.approx(whole - float(scores_from(trace, without)[0]), abs=1e-5)


def test_shares_sum_to_one_and_all_layers_can_be_asked():
    model, text, _ = made("gpt2")
    result = explain(model, text, method="attribute", how="exact", layer="all")
    for layer in result.data["layers"].values():
        assert all(sum(row) == pytest.approx(1) for row in layer["contributions"])
        assert 0 <= layer["not_main"] <= 1
    with pytest.raises(ValueError, match=r"decoder\.0, decoder\.1"):
        explain(model, text, method="attribute", layer="7")
