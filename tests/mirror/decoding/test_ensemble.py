"""Ensembles: the mean of probabilities, in any company; a model with itself is that model."""

import random

import pytest
import torch
from tests.conformance.test_company import alone, in_company, make, make_requests

from regard.decoding.ensemble import Ensemble


def disturbed(name, seed):
    model = make(name, {}, torch.float64)
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=draw, dtype=torch.float64))
    return model


@pytest.mark.parametrize("name", ["transformer", "seq2seq"])
def test_a_model_with_itself_is_that_model(name):
    model, dice = make(name, {}, torch.float64), random.Random(name)
    requests = make_requests(name, model.vocab_size, 10, dice)
    results, _, _ = in_company(Ensemble([model, model]), requests, dice)
    assert len(results) > 5
    for number, hypotheses in results.items():
        expected = alone(model, requests[number])
        assert [h.tokens for h in hypotheses] == [h.tokens for h in expected]
        assert [h.score for h in hypotheses] == pytest.approx([h.score for h in expected], abs=1e-9)


def test_in_company_as_alone():
    members = [disturbed("transformer", seed) for seed in range(3)]
    dice = random.Random(7)
    requests = make_requests("transformer", members[0].vocab_size, 10, dice)
    results, _, _ = in_company(Ensemble(members), requests, dice)
    assert len(results) > 5
    for number, hypotheses in results.items():
        expected = alone(Ensemble(members), requests[number])
        assert [h.tokens for h in hypotheses] == [h.tokens for h in expected]


def test_probabilities_are_averaged():
    members = [disturbed("transformer", seed) for seed in (1, 2)]
    source = torch.tensor([[5, 6, 7, 3]])
    inputs = {"source": source, "source_mask": torch.ones_like(source, dtype=torch.bool)}
    tokens, paths = torch.tensor([[2, 5]]), torch.tensor([0])

    def logits(model):
        with torch.no_grad():
            state = model.new_state(sources=1, paths=1, capacity=8)
            model.read(inputs, state, torch.tensor([0]))
            state.begin(paths, torch.tensor([0]))
            first = model.step(tokens[:, :1], torch.tensor([1]), paths, state)
            return first, model.step(tokens[:, 1:], torch.tensor([1]), paths, state)

    together, apart = logits(Ensemble(members)), [logits(model) for model in members]
    for step in range(2):
        mean = sum(both[step].softmax(-1) for both in apart) / 2
        torch.testing.assert_close(together[step].exp(), mean)
    assert together[1].exp().sum().item() == pytest.approx(1)
