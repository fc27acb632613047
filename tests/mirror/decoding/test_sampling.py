"""Sampling: filters against their definitions, draws against their distribution, and what decides a draw."""

import math
from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.core.search import Search
from regard.decoding.sampling import candidates, pick, uniform

INF = float("inf")


def kept(log_probs, search):
    """The distribution over the vocabulary that is drawn from."""
    probs, tokens = candidates(log_probs, search)
    full = torch.zeros(log_probs.shape, dtype=torch.float64)
    tokens = torch.arange(log_probs.shape[1]).expand_as(probs) if tokens is None else tokens
    return (full.scatter(1, tokens, probs) / probs.sum(-1, keepdim=True)).tolist()


def defined(log_probs, search):
    """The same, one token at a time."""
    weights = {v: lp / search.temperature for v, lp in enumerate(log_probs) if lp > -INF}
    top = max(weights.values())
    weights = {v: math.exp(w - top) for v, w in weights.items()}
    order = sorted(weights, key=lambda v: -weights[v])[: search.top_k or None]
    total, mass, nucleus = sum(weights[v] for v in order), 0.0, []
    for v in order:
        if nucleus and mass / total >= search.top_p:
            break
        nucleus.append(v)
        mass += weights[v]
    likely = [v for v in nucleus if weights[v] >= search.min_p * weights[order[0]]]
    total = sum(weights[v] for v in likely)
    return [weights[v] / total if v in likely else 0.0 for v in range(len(log_probs))]


options = st.fixed_dictionaries(
    {},
    optional={
        "temperature": st.sampled_from([0.3, 0.7, 1.0, 2.5]),
        "top_k": st.integers(0, 12),
        "top_p": st.sampled_from([1e-9, 0.1, 0.5, 0.9, 0.999, 1.0]),
        "min_p": st.sampled_from([0.0, 0.05, 0.3, 1.0]),
    },
)


@given(options, st.integers(0, 10**6), st.booleans())
def test_filters_follow_their_definitions(given_options, seed, ruled_out):
    search = Search(sample=True, **given_options)
    noise = torch.Generator().manual_seed(seed)
    log_probs = (2 * torch.randn(4, 10, generator=noise, dtype=torch.float64)).log_softmax(-1)
    if ruled_out:
        log_probs[:, ::3] = -INF
    for got, row in zip(kept(log_probs, search), log_probs.tolist(), strict=True):
        assert got == pytest.approx(defined(row, search), abs=1e-12)
        assert sum(p > 0 for p in got) >= 1


def test_the_nucleus_is_full_when_it_has_exactly_top_p():
    log_probs = torch.tensor([[0.5, 0.25, 0.125, 0.125]], dtype=torch.float64).log()
    for top_p, size in ((0.25, 1), (0.5, 1), (0.51, 2), (0.75, 2), (0.875, 3), (0.9, 4)):
        probs, _ = candidates(log_probs, Search(sample=True, top_p=top_p))
        assert int((probs > 0).sum()) == size, top_p


@pytest.mark.parametrize("spread", [0.1, 3.0])
def test_the_nucleus_of_a_large_vocabulary_may_be_wide_or_narrow(spread):
    log_probs = (spread * torch.randn(2, 2000, dtype=torch.float64)).log_softmax(-1)
    search = Search(sample=True, top_p=0.8)
    for got, row in zip(kept(log_probs, search), log_probs.tolist(), strict=True):
        assert got == pytest.approx(defined(row, search), abs=1e-12)


@pytest.mark.parametrize("temperature", [0.0, 1e-320, 1e-45, 1e-8])
def test_the_coldest_draw_is_greedy(kit, temperature):
    for seed in range(10):
        model, inputs = kit.Table(8, seed=seed), kit.sources([2, 4], seed=seed)
        cold = kit.run(model, inputs, Search(sample=True, temperature=temperature, seed=seed))
        assert cold == kit.run(model, inputs, Search(beam=1))


def test_one_candidate_is_greedy(kit):
    model, inputs = kit.Table(8), kit.sources([2, 4])
    for only in ({"top_k": 1}, {"top_p": 1e-12}, {"min_p": 1.0}):
        assert kit.run(model, inputs, Search(sample=True, **only)) == kit.run(model, inputs, Search(beam=1))


@pytest.mark.parametrize("more", [{}, {"top_k": 4}, {"top_p": 0.8, "temperature": 1.5}, {"min_p": 0.1}])
def test_draws_have_the_distribution(kit, more):
    """Chi-squared over whole outputs of up to two tokens."""
    draws, model, inputs = 4000, kit.Table(7, spread=1.0), kit.sources([2])
    search = Search(sample=True, nbest=draws, max_length=2, seed=11, **more)
    counts = Counter(tuple(draw.tokens) + (kit.EOS,) * draw.finished for draw in kit.run(model, inputs, search)[0])
    chances = {}
    for first, p in enumerate(chance(kit, model, inputs, [], search)):
        if first == kit.EOS:
            chances[first,] = p
            continue
        chances |= {(first, second): p * q for second, q in enumerate(chance(kit, model, inputs, [first], search))}
    expected = {tokens: draws * p for tokens, p in chances.items() if p > 0}
    assert set(counts) <= set(expected)
    chi_squared = sum((counts[tokens] - e) ** 2 / e for tokens, e in expected.items())
    freedom = len(expected) - 1
    assert abs(chi_squared - freedom) < 5 * math.sqrt(2 * freedom)


def chance(kit, model, inputs, tokens, search):
    gains, _ = kit.look(model, inputs, tokens)
    return defined([-INF if v in (0, 1) else gain for v, gain in enumerate(gains)], search)


def test_log_probabilities_are_the_models_own(kit):
    model, inputs = kit.Table(8), kit.sources([2])
    (draw,) = kit.run(model, inputs, Search(sample=True, temperature=2.0, top_k=3, seed=1, max_length=6))[0]
    tokens = draw.tokens + [kit.EOS] * draw.finished
    wanted = sum(kit.look(model, inputs, tokens[:i])[0][token] for i, token in enumerate(tokens))
    assert draw.log_prob == pytest.approx(wanted)


def test_the_seed_decides_and_torch_is_left_alone(kit):
    model, inputs = kit.Table(9), kit.sources([2, 2, 3])
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first, same, other = (kit.run(model, inputs, Search(sample=True, nbest=3, seed=seed)) for seed in (7, 7, 8))
    loose = [kit.run(model, inputs, Search(sample=True, nbest=3)) for _ in range(2)]
    assert torch.equal(torch.get_rng_state(), before)
    assert first == same != other
    assert loose[0] != loose[1]


def test_seeds_may_have_64_bits(kit):
    model, inputs = kit.Table(9), kit.sources([2, 3])
    draws = [
        kit.run(model, inputs, Search(sample=True, nbest=3, seed=seed)) for seed in (5, 2**63, 2**64 - 1, 2**64 - 1)
    ]
    assert draws[0] != draws[1] != draws[2] == draws[3]


def test_a_row_draws_by_its_number_in_any_company(kit):
    model, inputs = kit.Table(9), kit.sources([3, 1, 4, 2])
    search = Search(sample=True, nbest=2, seed=7, top_p=0.9)
    whole = kit.run(model, inputs, search, rows=[10, 11, 12, 13])
    order = [2, 0]
    part = {name: tensor[order] for name, tensor in inputs.items()}
    assert kit.run(model, part, search, rows=[12, 10]) == [whole[2], whole[0]]
    assert kit.run(model, part, search, rows=[0, 1]) != [whole[2], whole[0]]


def test_rows_alike_draw_apart(kit):
    single = kit.sources([3])
    inputs = {name: tensor.repeat(20, 1) for name, tensor in single.items()}
    rows = kit.run(kit.Table(9, end=-3.0), inputs, Search(sample=True, nbest=2, max_length=6, seed=0))
    assert len({tuple(draw.tokens) for row in rows for draw in row}) > 35


def test_uniform_numbers_are_uniform_and_unrelated():
    numbers = torch.tensor([[uniform(3, row, 0, step) for step in range(40)] for row in range(100)])
    assert numbers.min() >= 0.0
    assert numbers.max() < 1.0
    counts = torch.histc(numbers, 20, 0.0, 1.0)
    assert abs(((counts - 200) ** 2 / 200).sum().item() - 19) < 5 * math.sqrt(38)
    for axis in (0, 1):
        near = torch.stack([numbers.narrow(axis, 0, 39).flatten(), numbers.narrow(axis, 1, 39).flatten()])
        assert abs(torch.corrcoef(near)[0, 1].item()) < 5 / math.sqrt(near.shape[1])


def test_pick_never_takes_what_has_no_probability():
    probs = torch.tensor([[0.0, 0.1, 0.0, 0.2, 0.0]] * 3, dtype=torch.float64)
    picked = pick(probs, torch.tensor([0.0, 1.0 - 2**-53, 1.0], dtype=torch.float64))
    assert picked.flatten().tolist() == [1, 3, 3]
