"""What every position scheme must keep, found by folder listing."""

import math

import pytest
import torch
from torch import nn

import regard
from regard.attention import causal, positions, window
from regard.attention.causal_positions import step_positions
from regard.attention.heads import MultiHead
from regard.attention.positions import Position, is_bounded, make_position
from regard.attention.positions.rotary_llama3 import RotaryLlama3
from regard.attention.positions.rotary_yarn import RotaryYarn
from regard.core import lookup
from regard.core.errors import LengthError, UsageError
from regard.core.state import State

SCHEMES = lookup.names(positions.__name__)
RELATIVE = [name for name in SCHEMES if name not in ("none", "learned", "sinusoidal", "linear", "unit")]
BOUNDED = [name for name in SCHEMES if is_bounded(name)]


def make(name: str) -> tuple[Position, MultiHead]:
    scheme = make_position(name, d_model=16, d_head=4, n_heads=4, max_len=64)
    # Trained tables start out almost equal; larger ones stand in for trained ones.
    for parameter in scheme.parameters():
        nn.init.normal_(parameter)
    return scheme, MultiHead(16, 4, position=scheme)


def run(name: str, x: torch.Tensor, start: int = 0, **rest) -> torch.Tensor:
    torch.manual_seed(0)
    scheme, attention = make(name)
    places = torch.arange(start, start + x.shape[1])
    return attention(scheme.embed(x, places), positions=places, **rest)


@pytest.mark.parametrize("name", SCHEMES)
def test_order_is_seen_by_all_but_none(name):
    x, order = torch.randn(1, 4, 16), torch.tensor([3, 2, 0, 1])
    straight, permuted = run(name, x)[:, order], run(name, x[:, order])
    assert torch.allclose(straight, permuted, atol=1e-5) == (name == "none")


@pytest.mark.parametrize("name", RELATIVE)
def test_relative_schemes_do_not_see_where_the_sequence_starts(name):
    x = torch.randn(2, 6, 16)
    torch.testing.assert_close(run(name, x), run(name, x, start=37), atol=1e-5, rtol=0)


@pytest.mark.parametrize("mask", [causal(), window(2, 0)])
@pytest.mark.parametrize("name", SCHEMES)
def test_step_by_step_equals_all_at_once(name, mask):
    x = torch.randn(2, 7, 16)
    whole = run(name, x, mask=mask)
    torch.manual_seed(0)
    scheme, attention = make(name)
    state, steps = State(paths=2), []
    with torch.no_grad():
        for t in range(7):
            step = scheme.embed(x[:, t : t + 1], torch.tensor([t]))
            rows = state.rows(torch.arange(2), torch.ones(2, dtype=torch.long), 1)
            steps.append(attention(step, mask=mask, rows=rows))
            rows.advance()
    torch.testing.assert_close(torch.cat(steps, 1), whole, atol=1e-5, rtol=0)


@pytest.mark.parametrize("reach", [None, 3])
@pytest.mark.parametrize("name", SCHEMES)
def test_paths_of_unlike_length_step_together(name, reach):
    """Three paths that have read 0, 2 and 5 tokens take up to three more in one step."""
    x, before, counts = torch.randn(3, 8, 16), [0, 2, 5], torch.tensor([3, 1, 2])
    whole = run(name, x, mask=causal() if reach is None else window(reach - 1, 0))
    torch.manual_seed(0)
    scheme, attention = make(name)
    state = State(paths=3, capacity=2)
    with torch.no_grad():
        for path, length in enumerate(before[1:], start=1):
            rows = state.rows(torch.tensor([path]), torch.tensor([length]), length)
            positions, mask = step_positions(rows, reach=reach)
            attention(scheme.embed(x[path, None, :length], positions), mask=mask, positions=positions, rows=rows)
            rows.advance()
        rows = state.rows(torch.arange(3), counts, 3)
        positions, mask = step_positions(rows, reach=reach)
        new = torch.stack([x[path, length : length + 3] for path, length in enumerate(before)])
        out = attention(scheme.embed(new, positions), mask=mask, positions=positions, rows=rows)
    for path, (length, count) in enumerate(zip(before, counts.tolist(), strict=True)):
        torch.testing.assert_close(out[path, :count], whole[path, length : length + count], atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", SCHEMES)
def test_rows_may_have_their_own_positions(name):
    """Left padding: the second row's tokens stand two places further left."""
    x = torch.randn(2, 6, 16)
    torch.manual_seed(0)
    scheme, attention = make(name)
    places = torch.stack([torch.arange(6), (torch.arange(6) - 2).clamp_min(0)])
    real = torch.tensor([[True] * 6, [False] * 2 + [True] * 4])
    both = attention(scheme.embed(x, places), positions=places, mask=regard.Mask(keys=real))
    alone = run(name, x[1:, 2:])
    torch.testing.assert_close(both[1:, 2:], alone, atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", SCHEMES)
def test_saves_only_what_is_trained(name):
    scheme, _ = make(name)
    assert set(scheme.state_dict()) == {key for key, _ in scheme.named_parameters()}


@pytest.mark.parametrize("name", SCHEMES)
def test_may_be_built_without_memory_and_filled_later(name):
    with torch.device("meta"):
        scheme, _ = make(name)
    assert all(parameter.is_meta for parameter in scheme.parameters())
    scheme.to_empty(device="cpu")
    scheme.embed(torch.randn(1, 3, 16), torch.arange(3))
    scheme.rotate(torch.randn(1, 4, 3, 4), torch.arange(3))


@pytest.mark.parametrize("name", BOUNDED)
def test_bounded_positions_end(name):
    scheme, _ = make(name)
    scheme.embed(torch.randn(1, 64, 16), torch.arange(64))
    with pytest.raises(LengthError, match=r"65 tokens.*at most 64.*larger max_len"):
        scheme.embed(torch.randn(1, 65, 16), torch.arange(65))


@pytest.mark.parametrize("name", [n for n in SCHEMES if n not in BOUNDED])
def test_the_others_have_no_longest_input(name):
    assert run(name, torch.randn(1, 300, 16)).isfinite().all()


def test_which_end():
    assert BOUNDED == ["learned", "unit"]


def test_pairs_need_an_even_width():
    for name in ("rotary", "rotary_ntk"):
        with pytest.raises(UsageError, match="even"):
            make_position(name, d_head=5)
    with pytest.raises(UsageError, match="even"):
        make_position("sinusoidal", d_model=5).embed(torch.randn(1, 2, 5), torch.arange(2))


def test_shaw_by_its_equation():
    scheme = make_position("relative_shaw", d_head=4)
    query = torch.randn(2, 3, 40, 4)
    bias = scheme.bias(query, regard.Mask().distance(40, 40))
    for i, j in [(0, 0), (3, 9), (39, 0), (0, 39), (20, 4)]:
        vector = scheme.table.weight[min(max(j - i, -16), 16) + 16]
        torch.testing.assert_close(bias[:, :, i, j], query[:, :, i] @ vector / 2)


def test_t5_buckets():
    """Exact up to 8 apart each way, then logarithmic to 128, then one for all: the numbers of the published scheme."""
    both = make_position("relative_t5", n_heads=2)
    distances = torch.tensor([0, -1, -7, -8, -127, -128, -5000, 1, 7, 8, 5000])
    assert both.bucket(distances).tolist() == [0, 1, 7, 8, 15, 15, 15, 17, 23, 24, 31]
    back = make_position("relative_t5", n_heads=2, bidirectional=False)
    assert back.bucket(torch.tensor([5, 0, -1, -15, -16, -128])).tolist() == [0, 0, 1, 15, 16, 31]


def test_alibi_slopes():
    from regard.attention.positions.alibi import slopes

    assert slopes(8) == [2.0**-h for h in range(1, 9)]
    assert len(slopes(12)) == 12
    assert slopes(12)[8:] == [2 ** (-0.5), 2 ** (-1.5), 2 ** (-2.5), 2 ** (-3.5)]
    bias = make_position("alibi", n_heads=8).bias(torch.randn(1, 8, 3, 4), regard.Mask().distance(3, 3))
    assert bias[0, 2].tolist() == [-1.0, -0.5, 0.0]


@pytest.mark.parametrize("name", [name for name in SCHEMES if name.startswith("rotary")])
def test_rotary_schemes_turn_with_the_published_base(name):
    """θ_i = N^(−2i/d), N = 10 000, for NTK by 2 that times 2^(d/(d−2)); scaling leaves the fastest pair alone."""
    scheme = make_position(name, d_model=16, d_head=8, n_heads=2, max_len=64)
    assert scheme.base == pytest.approx(10_000 * (2 ** (8 / 6) if name == "rotary_ntk" else 1))
    assert scheme.frequencies()[0] == 1


def test_llama3_scales_by_turns_in_the_trained_length():
    """More than `many` turns: as they are; fewer than `few`: slower by the factor; between them in proportion."""
    scheme = RotaryLlama3(8, factor=8.0, trained_len=100, few=1.0, many=4.0, base=100.0)
    plain = [100 ** (-2 * pair / 8) for pair in range(4)]
    for got, frequency in zip(scheme.frequencies().tolist(), plain, strict=True):
        turns = 100 * frequency / (2 * math.pi)
        kept = min(max((turns - 1) / 3, 0), 1)
        assert got == pytest.approx(frequency * (kept + (1 - kept) / 8))
    assert [0 < 100 * frequency / (2 * math.pi) - 1 < 3 for frequency in plain] == [False, False, True, False]


def test_yarn_makes_scores_sharper_by_its_published_factor():
    """0.1 ln s + 1 on queries and keys each (Peng et al. 2023); nothing without scaling."""
    for factor, gain in ((1.0, 1.0), (4.0, 1.1386294), (16.0, 1.2772589)):
        scheme = RotaryYarn(4, factor=factor)
        x = torch.randn(1, 1, 3, 4)
        longer = scheme.rotate(x, torch.arange(3)).norm(dim=-1) / x.norm(dim=-1)
        torch.testing.assert_close(longer, torch.full_like(longer, gain))
    own = RotaryYarn(4, factor=4.0, gain=2.0).rotate(x, torch.arange(3))
    torch.testing.assert_close(own.norm(dim=-1), 2 * x.norm(dim=-1))


@pytest.mark.parametrize("name", ["relative_t5", "relative_shaw", "learned"])
def test_tables_begin_small_beside_what_they_are_added_to(name):
    scheme = make_position(name, d_model=64, d_head=64, n_heads=64, max_len=64)
    for table in scheme.parameters():
        assert 0.005 < table.std() < 0.2
