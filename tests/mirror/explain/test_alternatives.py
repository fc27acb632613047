"""Other attention weights with the same output: valid distributions, unlike the first, to 1e-6."""

import pytest
import torch
from tests.conformance.explained import made

import regard
from regard.explain import explain
from regard.explain.methods.alternatives import moved, other_weights
from regard.explain.methods.effective import value_paths


@pytest.mark.parametrize("n_keys", [6, 20, 100])
def test_a_distribution_with_the_same_output(n_keys):
    torch.manual_seed(n_keys)
    weights = torch.randn(5, n_keys, dtype=torch.float64).mul(2).softmax(-1)
    path = torch.randn(n_keys, 4, dtype=torch.float64)
    other = moved(weights, path)
    assert other.min() >= 0
    torch.testing.assert_close(other.sum(-1), torch.ones(5, dtype=torch.float64))
    torch.testing.assert_close(other @ path, weights @ path, atol=1e-12, rtol=0)
    assert ((other - weights).abs().sum(-1) / 2 > 0.001).all(), "weight has moved in every row"
    between = 0.3 * weights + 0.7 * other
    torch.testing.assert_close(between @ path, weights @ path, atol=1e-12, rtol=0)


def test_without_a_null_space_nothing_else_gives_this_output():
    weights, path = torch.full((2, 4), 0.25, dtype=torch.float64), torch.randn(4, 3, dtype=torch.float64)
    assert torch.equal(moved(weights, path), weights)  # [T, 1] has rank 4


@pytest.mark.parametrize("name", ["bert-none", "gpt2", "transformer"])
def test_every_head_of_a_model(name):
    """Causal rows move within the keys that they see; values through the output projection stay as they were."""
    model, _, target = made(name)
    text = "the cat saw the dog and the dog saw the cat and the bird"
    trace = regard.trace(model, text, target, value_path=True)
    apart = 0.0
    for site in trace.sites:
        for look in trace.looks(site, 0):
            other = other_weights(look)
            assert other.min() >= 0
            torch.testing.assert_close(other.sum(-1), look.weights.double().sum(-1), atol=1e-6, rtol=0)
            if look.allowed is not None:
                assert (other * ~look.allowed).abs().max() == 0
            for queries, path in value_paths(look):
                raw, same = (weights[:, queries].double() @ path.double() for weights in (look.weights, other))
                assert (raw - same).abs().max() <= 1e-6 * raw.abs().max()
            apart = max(apart, float((other - look.weights).abs().sum(-1).max() / 2))
    assert apart > 0.05
    result = explain(trace, method="alternatives")
    assert any("infinitely many" in statement for statement in result.statements)
    assert [panel.name.rpartition(": ")[2] for panel in result.panels[:2]] == ["raw", "alternative"]
