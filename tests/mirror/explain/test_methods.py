"""Rollout, flow, ablation, lens, gradient flow and maps against what they mean, worked out another way."""

import importlib
import math

import pytest
import torch
from tests.conformance.explained import made

import regard
from regard.explain import explain
from regard.explain.methods.ablate import effect
from regard.explain.methods.gradients import by_distance
from regard.explain.methods.rollout import flowing, rolled


def test_rollout_is_a_product_of_layers():
    model, text, _ = made("bert-none")
    trace = regard.trace(model, text)
    wanted = torch.eye(len(trace.labels("input")))
    for site in trace.sites:
        step = 0.5 * trace.heads(site).mean(0) + 0.5 * torch.eye(len(wanted))
        wanted = (step / step.sum(-1, keepdim=True)) @ wanted
    rollout = explain(trace, method="rollout").data["encoder"]["encoder.1.self"]
    torch.testing.assert_close(torch.tensor(rollout), wanted, atol=1e-6, rtol=1e-5)


def test_flow_is_what_the_narrowest_edges_let_through():
    """Two layers of two tokens: to token 0 by 0.6·→0.3 and 0.4→0.9, that is 0.3 + 0.4; to token 1 0.6 + 0.1."""
    steps = [torch.tensor([[0.3, 0.7], [0.9, 0.1]]), torch.tensor([[0.6, 0.4], [0.2, 0.8]])]
    flows = flowing(steps, 0)
    torch.testing.assert_close(flows, torch.tensor([0.7, 0.7]) / 1.4)
    torch.testing.assert_close(rolled(steps)[-1], steps[1] @ steps[0])


def test_a_head_that_is_off_adds_nothing():
    model, text, target = made("gpt2")
    subject = model.subject(text, target)
    site, head = "decoder.1.self", 2
    changes = effect(subject, site, 3)
    with torch.no_grad():
        before = float(subject.scores()[0])
        projection = model.model.decoder[1].self.output
        kept = projection.weight.clone()
        projection.weight[:, head * 8 : (head + 1) * 8] = 0
        after = float(subject.scores()[0])
        projection.weight.copy_(kept)
    assert float(changes[head]) == pytest.approx(after - before, abs=1e-5)


@pytest.mark.parametrize("name", ["gpt2", "llama", "transformer", "seq2seq", "bert-masked_lm", "bert-classes", "vit"])
def test_the_last_layer_of_the_lens_is_the_model(name):
    model, text, target = made(name)
    trace = regard.trace(model, text, target)
    subject = trace.live()
    with torch.no_grad():
        logits = subject.run(**subject.inputs).logits[0]
        side = "decoder" if trace.layers("decoder") else "encoder"
        torch.testing.assert_close(
            subject.head_logits(trace.states(trace.layers(side)[-1]))[0], logits, atol=1e-5, rtol=1e-5
        )
    result = explain(trace, method="lens")
    if logits.dim() == 1:
        assert result.data["winners"][-1] == subject.label(int(logits.argmax()))
    else:
        assert result.data["final"] == [subject.label(int(token)) for token in logits.argmax(-1)]
        assert result.data["agreement"][-1] == 1.0


def test_the_factor_of_a_falling_gradient():
    gap = (torch.arange(9)[:, None] - torch.arange(9)).abs().double()
    curve = by_distance(3 * 0.5**gap)
    assert curve["factor"] == pytest.approx(0.5)
    assert curve["norm"][2] == pytest.approx(0.75)
    assert by_distance((2.0 * 1.1**gap).tril())["factor"] == pytest.approx(1.1)


def test_an_elman_networks_gradient_follows_its_matrix():
    """h_t = tanh(W h_{t−1} + …): with W half the identity and small inputs, each step halves the gradient."""
    model, _, target = made("seq2seq-none")
    cell = next(module for module in model.model.encoder.modules() if isinstance(module, torch.nn.RNN))
    kept = {name: parameter.detach().clone() for name, parameter in cell.named_parameters()}
    try:
        with torch.no_grad():
            for name, parameter in cell.named_parameters():
                if "weight_hh" in name:
                    parameter.copy_(0.5 * torch.eye(len(parameter)))
                else:
                    parameter.mul_(1e-3)
        result = explain(
            model, "the cat sat on the mat the cat", target, method="gradients", untrained=False, probes=64
        )
    finally:
        with torch.no_grad():
            for name, parameter in cell.named_parameters():
                parameter.copy_(kept[name])
    assert result.data["trained"]["factor"] == pytest.approx(0.5, abs=0.02)
    assert "vanishes" in result.statements[0]


def test_entropy_and_distance_of_a_map():
    model, text, _ = made("bert-none")
    trace = regard.trace(model, text)
    facts = explain(trace, method="maps").data["sites"]["encoder.0.self"]
    heads = trace.heads("encoder.0.self")
    n = heads.shape[1]
    for head in range(len(heads)):
        rows = [[float(a) for a in row] for row in heads[head]]
        entropy = sum(-a * math.log(a) for row in rows for a in row if a > 0) / n
        distance = sum(a * abs(q - k) for q, row in enumerate(rows) for k, a in enumerate(row)) / n
        assert facts["entropy"][head] == pytest.approx(entropy, abs=1e-5)
        assert facts["distance"][head] == pytest.approx(distance, abs=1e-5)


@pytest.mark.parametrize(
    ("kind", "site", "causal"), [("bert-none", "encoder.0.self", 0), ("gpt2", "decoder.0.self", 1)]
)
def test_weight_on_the_own_token_of_a_map(kind, site, causal):
    """The first token of a causal model sees only itself, which says nothing."""
    model, text, target = made(kind)
    trace = regard.trace(model, text, target)
    result = explain(trace, method="maps")
    facts, heads = result.data["sites"][site], trace.heads(site)
    places = range(causal, heads.shape[1])
    for head in range(len(heads)):
        own = sum(float(heads[head, place, place]) for place in places) / len(places)
        assert facts["own"][head] == pytest.approx(own, abs=1e-5)
    equal = [1 / (place + 1 if causal else heads.shape[2]) for place in places]
    assert facts["own_if_equal"] == pytest.approx(sum(equal) / len(places), abs=1e-6)
    by_head = next(panel for panel in result.panels if panel.name == "Weight on the own token, of each head")
    assert by_head.values[by_head.rows.index(site)] == facts["own"]
    assert "of its weight on the own token" in result.statements[-1]


def test_a_map_of_another_side_has_no_own_token():
    model, text, target = made("transformer")
    result = explain(model, text, target, method="maps", sites="decoder.*.cross")
    assert all("own" not in facts for facts in result.data["sites"].values())
    assert not any("own token" in line for line in result.statements)


def test_gradients_by_weights_are_right():
    """∂score/∂A by a small change of one weight, through the context that it mixes."""
    from regard.core import taps

    model, text, target = made("gpt2")
    trace = regard.trace(model, text, target, gradients=True, value_path=True)
    site = trace["decoder.0.self"]
    subject, (head, query, key), step = trace.live(), (1, 4, 2), 1e-2
    with taps.watch("decoder.0.self", parts=True) as seen, torch.no_grad():
        subject.run(**subject.inputs)
    value = seen["decoder.0.self"].values[0, head, key]

    def nudge(sign):
        def change(_, context):
            context = context.clone()
            context[0, head, query] += sign * step * value
            return context

        with taps.alter({"decoder.0.self": change}), torch.no_grad():
            return float(subject.scores()[0])

    slope = (nudge(1) - nudge(-1)) / (2 * step)
    assert float(site.gradients[0, head, query, key]) == pytest.approx(slope, abs=1e-3, rel=1e-2)


def test_only_what_is_asked_for_is_worked_out(monkeypatch):
    attend = importlib.import_module("regard.attention.attend")
    calls = []
    choose = attend.choose
    monkeypatch.setattr(attend, "choose", lambda stages: calls.append(1) or choose(stages))
    model, text, _ = made("bert-none")
    trace = regard.trace(model, text, sites="encoder.1")
    assert list(trace.sites) == ["encoder.1.self"]
    assert len(calls) == 1
    assert list(trace.hidden) == ["encoder.input", "encoder.0", "encoder.1"]
