"""A shortlist changes which tokens may come, and nothing else: alone, in company, plain or prepared."""

import random

import pytest
import torch
from tests.conformance.test_company import EOS, alone, in_company, make, make_requests

from regard.runtime import choose
from regard.runtime.native import Missing, kernels
from regard.runtime.shortlist import Shortlist, Shortlisted


def shortlist(model, share, seed=1):
    dice = torch.Generator().manual_seed(seed)
    vocab = model.vocab_size
    best = torch.randint(-1, vocab, (vocab, max(1, int(share * vocab))), generator=dice)
    return Shortlist(best, torch.tensor([EOS, 5]))


def test_a_source_allows_its_translations_and_the_frequent():
    table = Shortlist(torch.tensor([[1, 2], [3, -1], [4, 5]]), torch.tensor([0]))
    source, real = torch.tensor([[0, 1], [1, 2]]), torch.tensor([[True, True], [True, False]])
    allowed = table.allowed(source, real, 6)
    assert allowed.int().tolist() == [[1, 1, 1, 1, 0, 0], [1, 0, 0, 1, 0, 0]]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_only_listed_tokens_come_and_company_changes_nothing(dtype):
    model = make("transformer", {}, dtype)
    dice = random.Random(5)
    requests = make_requests("transformer", model.vocab_size, 80, dice)
    runner = model
    if dtype == torch.float32:
        if isinstance(kernels(), Missing):
            pytest.skip("no C compiler to build the kernels with")
        runner = choose(model, "float32").model
    table = shortlist(model, 0.1)
    results, _, _ = in_company(Shortlisted(runner, table), requests, dice)
    assert len(results) > 15
    unlike, different = 0, 0
    for number, hypotheses in results.items():
        inputs = requests[number].inputs
        allowed = table.allowed(inputs["source"][None], inputs["source_mask"][None], model.vocab_size)[0]
        begun = len(requests[number].prefix)
        assert all(bool(allowed[token]) for h in hypotheses for token in h.tokens[begun:])
        expected = alone(Shortlisted(model, table), requests[number])
        unlike += [h.tokens for h in hypotheses] != [h.tokens for h in expected]
        different += [h.tokens for h in hypotheses] != [h.tokens for h in alone(model, requests[number])]
    assert unlike <= (0 if dtype == torch.float64 else 0.005 * len(results))
    assert different > len(results) / 4, "a list that forbids nothing proves little"


def test_a_list_of_everything_changes_nothing():
    model, dice = make("transformer", {}, torch.float64), random.Random(6)
    everything = Shortlist(torch.full((model.vocab_size, 1), -1), torch.arange(model.vocab_size))
    requests = make_requests("transformer", model.vocab_size, 10, dice)
    results, _, _ = in_company(Shortlisted(model, everything), requests, dice)
    for number, hypotheses in results.items():
        assert [h.tokens for h in hypotheses] == [h.tokens for h in alone(model, requests[number])]
