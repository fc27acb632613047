"""Windows: the blocked, cropped and gathered paths give what a full mask gives, at the cost of the window."""

import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import regard
from regard.attention import Gaussian, around, local, make_chooser, make_score, padding, window
from regard.attention.attend import choose
from regard.attention.masks import Mask
from regard.attention.predicted_window import PredictedWindow
from regard.attention.scores.cosine import Cosine
from regard.attention.stages import Stages
from regard.core import lookup


def stages(n_queries, n_keys, mask, *, batch=2, heads=4, kv_heads=2, score="scaled_dot", chooser="softmax", **rest):
    query = torch.randn(batch, heads, n_queries, 8, requires_grad=True)
    keys, values = (torch.randn(batch, kv_heads, n_keys, 8, requires_grad=True) for _ in range(2))
    made = make_score(score, 8, 8, max_keys=4096), make_chooser(chooser).eval()
    return Stages(query, keys, values, made[0], mask, rest.get("bias"), made[1], rest.get("gain"), 0.0)


def compare(case: Stages) -> None:
    """attend against the dense stages: context and gradients."""
    leaves = [case.query, case.keys, case.values]
    rest = {"score": case.score, "mask": case.mask, "bias": case.bias, "chooser": case.chooser, "gain": case.gain}
    fast = regard.attend(*leaves, **rest)
    plain = choose(case)[0] @ case.values.repeat_interleave(case.query.shape[1] // case.values.shape[1], 1)
    torch.testing.assert_close(fast.context, plain, atol=1e-5, rtol=0)
    torch.testing.assert_close(fast.weights, choose(case)[0], atol=1e-6, rtol=0)
    probe = torch.randn_like(plain)
    ours, theirs = (
        torch.autograd.grad((out * probe).sum(), leaves, retain_graph=True, allow_unused=True, materialize_grads=True)
        for out in (fast.context, plain)
    )
    for gradient, expected in zip(ours, theirs, strict=True):
        torch.testing.assert_close(gradient, expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize("score", lookup.names("regard.attention.scores"))
@pytest.mark.parametrize("chooser", lookup.names("regard.attention.choosers"))
def test_blocks_equal_the_full_mask_for_every_score_and_chooser(score, chooser):
    case = stages(600, 600, window(9, 4) & padding(torch.tensor([300, 600])), score=score, chooser=chooser)
    compare(case)


@pytest.mark.parametrize("shape", [(2, 4, 600, 1), (2, 1, 600, 1), (2, 4, 1, 1), (1,), ()])
@pytest.mark.parametrize("mask", [window(9, 4), window(9, 4, start=300), around(torch.arange(600.0), 7)])
def test_a_strength_of_each_query_stays_with_its_query(shape, mask):
    case = replace(stages(600, 600, mask), score=Cosine(strength=1 + 3 * torch.rand(shape)))
    assert local.split(case) is not None
    compare(case)
    compare(replace(case, bias=lambda query, distance: query.sum(-1, keepdim=True) - distance.abs()))


@given(
    n_queries=st.integers(1, 700),
    n_keys=st.integers(1, 700),
    before=st.integers(0, 40),
    after=st.integers(0, 40),
    start=st.none() | st.integers(-20, 720),
)
def test_any_window_equals_the_full_mask(n_queries, n_keys, before, after, start):
    compare(stages(n_queries, n_keys, window(before, after, start=start), batch=1, heads=2, kv_heads=1))


def test_the_blocked_path_is_taken():
    assert local.split(stages(600, 600, window(9, 4))) is not None
    assert local.split(stages(600, 600, Mask())) is None
    assert local.split(stages(60, 60, window(9, 4))) is None, "short inputs are cheaper in one piece"


def test_the_newest_query_looks_at_the_window_only():
    smaller, _ = local.split(stages(1, 5000, window(63, 0).trim(1, 5000)))
    assert smaller.n_keys == 64


@given(n_queries=st.integers(1, 30), n_keys=st.integers(1, 120), radius=st.integers(1, 9), seed=st.integers(0, 99))
def test_predicted_centres_equal_the_full_mask(n_queries, n_keys, radius, seed):
    torch.manual_seed(seed)
    centre = torch.rand(2, 4, n_queries) * n_keys
    mask = around(centre, radius) & padding(torch.tensor([max(1, n_keys // 2), n_keys]), n_keys)
    compare(stages(n_queries, n_keys, mask, gain=Gaussian(radius / 2)))


def test_predicted_centres_learn_through_the_gaussian():
    for n_keys in (15, 200):
        centre = torch.full((1, 1, 1), 7.3, requires_grad=True)
        values = torch.zeros(1, 1, n_keys, 8)
        values[:, :, 9] = 1.0
        query, keys = torch.zeros(1, 1, 1, 8), torch.zeros(1, 1, n_keys, 8)
        regard.attend(query, keys, values, mask=around(centre, 4), gain=Gaussian(2.0)).context.sum().backward()
        assert centre.grad.item() > 0, "moving the centre towards the value at 9 must raise its weight"


def test_local_p_by_hand():
    """Luong's formula written out: softmax inside the window, then the Gaussian, not normalised again."""
    centre, radius = 5.4, 3
    query, keys = torch.randn(1, 8), torch.randn(40, 8)
    weights = regard.attend(
        query[None, None], keys[None, None], keys[None, None],
        mask=around(torch.full((1, 1, 1), centre), radius), gain=Gaussian(radius / 2), score="dot",
    ).weights[0, 0, 0]  # fmt: skip
    places = [s for s in range(40) if abs(s - centre) <= radius]
    assert places == [3, 4, 5, 6, 7, 8]
    inside = torch.softmax((query @ keys[places].T)[0], -1)
    expected = torch.zeros(40)
    expected[places] = inside * torch.exp(-((torch.tensor(places) - centre) ** 2) / (2 * (radius / 2) ** 2))
    torch.testing.assert_close(weights, expected)


@pytest.mark.parametrize("position", ["relative_shaw", "relative_t5", "alibi"])
def test_relative_positions_inside_windows(position):
    from regard.attention.positions import make_position

    scheme = make_position(position, d_head=8, n_heads=4)
    for parameter in scheme.parameters():
        torch.nn.init.normal_(parameter)
    compare(stages(600, 600, window(9, 4), bias=scheme.bias))
    compare(stages(9, 200, around(torch.rand(2, 4, 9) * 200, 7), bias=scheme.bias))


LONG = """
import resource, torch, regard
q, k, v = (torch.randn(1, 4, 16384, 64, requires_grad=True) for _ in range(3))
regard.attend(q, k, v, mask={mask}).context.sum().backward()
assert q.grad.isfinite().all()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2)
"""


@pytest.mark.parametrize("mask", [pytest.param("regard.causal()", marks=pytest.mark.slow), "regard.window(127, 0)"])
def test_sixteen_thousand_tokens_forward_and_backward_in_two_gibibytes(mask):
    done = subprocess.run([sys.executable, "-c", LONG.format(mask=mask)], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 2.0, "GiB at the peak, torch itself included"


def test_a_diagonal_start_puts_the_window_of_step_t_at_position_t():
    window = PredictedWindow(4, radius=2)
    torch.nn.init.zeros_(window.place.weight)
    query, lengths = torch.randn(3, 1, 5, 4), torch.tensor([5, 9, 1])
    mask, _ = window(query, lengths, torch.arange(5))
    assert mask.centre[0, 0].tolist() == pytest.approx([0.4, 1.2, 2.0, 2.8, 3.6], abs=1e-5), "as near as a sigmoid gets"
    assert mask.centre[1, 0].tolist() == pytest.approx([8 * (t + 0.5) / 9 for t in range(5)], abs=1e-5)
    assert mask.centre[2, 0].tolist() == [0.0] * 5
    late, _ = window(query, lengths, torch.arange(5) + 100)
    assert late.centre[0, 0].tolist() == pytest.approx([3.6] * 5), "past the source's end: near its last position"
    plain, _ = window(query, lengths)
    assert plain.centre[0, 0].tolist() == pytest.approx([2.0] * 5)
