"""The most probable tokens of a path: the compiled loop and torch's way beside a plain sort."""

from __future__ import annotations

import math

import pytest
import torch

from regard.decoding.candidates import LOOPS, best_of, best_of_logits


def _expected(logits, count, forbidden=()):
    log_probs = logits.double().log_softmax(-1)
    log_probs[:, list(forbidden)] = -math.inf
    # A stable sort puts the first of equals first.
    values, tokens = log_probs.sort(dim=-1, descending=True, stable=True)
    return values[:, :count], tokens[:, :count]


@pytest.fixture
def compiled():
    LOOPS.compile()
    if LOOPS.call is None:
        pytest.skip("no C compiler here")


@pytest.mark.parametrize("count", [1, 2, 10])
@pytest.mark.parametrize("vocab", [1024, 1025, 4000, 32003])
@pytest.mark.parametrize("rows", [1, 7])
def test_compiled_they_are_those_of_a_sort(compiled, rows, vocab, count):
    logits, index = torch.randn(rows + 2, vocab) * 5, torch.randperm(rows + 2)[:rows]
    forbidden = [0, int(logits[index[0]].argmax())]
    best = best_of_logits(logits, index, count, forbidden)
    values, tokens = _expected(logits[index], count, forbidden)
    assert torch.equal(best.token_NC, tokens)
    torch.testing.assert_close(best.log_prob_NC.double(), values, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("count", [1, 10])
@pytest.mark.parametrize("vocab", [3, 127, 1024, 1025, 4000])
@pytest.mark.parametrize("rows", [1, 7])
def test_by_torch_they_are_those_of_a_sort(rows, vocab, count):
    logits = torch.randn(rows, vocab, dtype=torch.float64)
    best = best_of(logits.log_softmax(-1), count)
    values, tokens = _expected(logits, count)
    assert torch.equal(best.token_NC, tokens)
    torch.testing.assert_close(best.log_prob_NC, values)


@pytest.mark.parametrize("vocab", [100, 2000, 2048])
def test_greedy_search_takes_the_first_of_equals(vocab):
    logits = torch.zeros(3, vocab)
    for token in (5, vocab - 1):
        logits[:, token] = 1.0
    assert best_of(logits.log_softmax(-1), 1).token_NC.flatten().tolist() == [5] * 3


def test_compiled_the_first_of_equals_comes_first(compiled):
    logits = torch.zeros(2, 5000)
    logits[:, [4999, 700, 31]] = 2.0
    best = best_of_logits(logits, torch.arange(2), 4)
    assert best.token_NC.tolist() == [[31, 700, 4999, 0]] * 2


def test_compiled_a_row_gives_the_same_bits_in_any_company(compiled):
    logits = torch.randn(33, 3001)
    together = best_of_logits(logits, torch.arange(33), 6)
    for row in (0, 17, 32):
        alone = best_of_logits(logits[row : row + 1].clone(), torch.tensor([0]), 6)
        assert torch.equal(alone.log_prob_NC[0], together.log_prob_NC[row])


@pytest.mark.parametrize("broken", [math.nan, math.inf])
@pytest.mark.parametrize("place", [0, 700, 1999])
def test_compiled_what_is_no_distribution_is_a_nan(compiled, broken, place):
    logits = torch.randn(2, 2000)
    logits[1, place] = broken
    best = best_of_logits(logits, torch.arange(2), 3)
    assert best.log_prob_NC[:, 0].isnan().tolist() == [False, True]


def test_compiled_forbidding_all_leaves_nothing_and_infinities_are_impossible(compiled):
    logits = torch.full((1, 2000), -math.inf)
    assert best_of_logits(logits, torch.tensor([0]), 2).log_prob_NC[0, 0].isnan()
    logits[0, [3, 4]] = 1.0
    best = best_of_logits(logits, torch.tensor([0]), 3, [3])
    assert best.token_NC[0, 0] == 4
    torch.testing.assert_close(best.log_prob_NC[0], torch.tensor([math.log(0.5), -math.inf, -math.inf]))
    assert best_of_logits(logits, torch.tensor([0]), 2, [3, 4]).log_prob_NC.tolist() == [[-math.inf, -math.inf]]
