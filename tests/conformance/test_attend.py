"""What every score, chooser and path must keep, found by folder listing: a new file is tested as it is added."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

import regard
from regard.attention import Mask, causal, choosers, make_chooser, make_score, padding, scores, window
from regard.attention.attend import choose
from regard.attention.stages import Stages
from regard.core import lookup

SCORES = lookup.names(scores.__name__)
CHOOSERS = lookup.names(choosers.__name__)
WIDTH = 8


def score_of(name: str, dtype: torch.dtype = torch.float32) -> nn.Module:
    return make_score(name, WIDTH, WIDTH, max_keys=64).to(dtype)


def chooser_of(name: str) -> nn.Module:
    return make_chooser(name).eval()


def inputs(batch=2, heads=2, n_queries=5, n_keys=7, dtype=torch.float32, kv_heads=None) -> list[Tensor]:
    kv_heads = kv_heads or heads
    shapes = [(batch, heads, n_queries, WIDTH), (batch, kv_heads, n_keys, WIDTH), (batch, kv_heads, n_keys, WIDTH)]
    return [torch.randn(shape, dtype=dtype, requires_grad=True) for shape in shapes]


def explicit(query, keys, values, score, chooser, mask=None, bias=None) -> Tensor:
    """The context by the plain stages, whatever path attend takes."""
    mask = mask if isinstance(mask, Mask) else Mask() if mask is None else Mask(pairs=mask)
    weights, _ = choose(Stages(query, keys, values, score, mask, bias, chooser, None, 0.0))
    return weights @ values.repeat_interleave(query.shape[1] // values.shape[1], 1)


def masks(n_queries: int, n_keys: int, batch: int) -> dict[str, Mask | Tensor | None]:
    lengths = torch.arange(batch) % n_keys + 1
    return {
        "none": None,
        "causal": causal(),
        "causal from 0": causal(start=0),
        "padding": padding(lengths, n_keys),
        "padded causal": padding(lengths, n_keys) & causal(),
        "window": window(2, 1),
        "pairs": torch.rand(batch, 1, n_queries, n_keys) > 0.4,
    }


def gradients(output: Tensor, leaves: list[Tensor]) -> list[Tensor]:
    probe = torch.linspace(-1, 1, output.numel(), dtype=output.dtype).view_as(output)
    return torch.autograd.grad(
        (output * probe).sum(), leaves, retain_graph=True, allow_unused=True, materialize_grads=True
    )


@pytest.mark.parametrize("chooser", CHOOSERS)
@pytest.mark.parametrize("score", SCORES)
def test_masked_keys_weigh_zero_and_change_nothing(score, chooser):
    query, keys, values = inputs()
    score, chooser = score_of(score), chooser_of(chooser)
    mask = torch.rand(2, 1, 5, 7) > 0.5
    mask[..., 0] = True
    attended = regard.attend(query, keys, values, score=score, chooser=chooser, mask=mask)
    assert (attended.weights.masked_select(~mask.expand_as(attended.weights)) == 0).all()
    torch.testing.assert_close(attended.weights.sum(-1), torch.ones(2, 2, 5))
    hidden = mask.clone()
    hidden[..., 3:] = False
    changed = keys.detach().clone(), values.detach().clone()
    for tensor in changed:
        tensor[:, :, 3:] = 99.0
    first = regard.attend(query, keys, values, score=score, chooser=chooser, mask=hidden).context
    second = regard.attend(query, *changed, score=score, chooser=chooser, mask=hidden).context
    torch.testing.assert_close(first, second)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("chooser", CHOOSERS)
@pytest.mark.parametrize("score", SCORES)
def test_a_row_that_sees_nothing_is_zero_with_finite_gradients(score, chooser, training, dtype):
    query, keys, values = inputs(dtype=dtype)
    score, chooser = score_of(score, dtype), chooser_of(chooser).train(training)
    mask = torch.ones(2, 1, 5, 7, dtype=torch.bool)
    mask[0, :, 2] = False
    context, weights = regard.attend(query, keys, values, score=score, chooser=chooser, mask=mask)
    assert (context[0, :, 2] == 0).all()
    assert (weights[0, :, 2] == 0).all()
    for result in (context, weights):
        if not result.requires_grad:
            continue
        for grad in gradients(result, [query, keys, values, *score.parameters()]):
            assert grad.isfinite().all()
        assert (gradients(result, [query])[0][0, :, 2] == 0).all()


@pytest.mark.parametrize("name", list(masks(5, 7, 2)))
@pytest.mark.parametrize("score", SCORES)
def test_fused_equals_explicit(score, name):
    leaves = inputs(n_queries=5, n_keys=7)
    score, softmax = score_of(score), chooser_of("softmax")
    mask = masks(5, 7, 2)[name]
    fast = regard.attend(*leaves, score=score, mask=mask).context
    plain = explicit(*leaves, score, softmax, mask)
    torch.testing.assert_close(fast, plain, atol=1e-5, rtol=0)
    every = [*leaves, *score.parameters()]
    for gradient, expected in zip(gradients(fast, every), gradients(plain, every), strict=True):
        torch.testing.assert_close(gradient, expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize("name", list(masks(5, 7, 20)))
@pytest.mark.parametrize("score", SCORES)
def test_many_small_heads_equal_the_fused_pass(score, name):
    """Without a graph, few queries of many heads take another path than with one."""
    leaves, score, mask = inputs(batch=20, heads=4), score_of(score), masks(5, 7, 20)[name]
    fused = regard.attend(*leaves, score=score, mask=mask).context
    with torch.no_grad():
        small = regard.attend(*leaves, score=score, mask=mask).context
    torch.testing.assert_close(small, fused, atol=1e-5, rtol=0)


@pytest.mark.parametrize("bias_grad", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_fused_equals_explicit_with_a_bias(masked, bias_grad):
    leaves = [*inputs(), torch.randn(2, 5, 7, requires_grad=bias_grad)]
    mask = padding(torch.tensor([3, 7])) & causal() if masked else None
    score, softmax = score_of("scaled_dot"), chooser_of("softmax")
    fast = regard.attend(*leaves[:3], mask=mask, bias=leaves[3]).context
    plain = explicit(*leaves[:3], score, softmax, mask, leaves[3])
    torch.testing.assert_close(fast, plain, atol=1e-5, rtol=0)
    every = leaves if bias_grad else leaves[:3]
    for gradient, expected in zip(gradients(fast, every), gradients(plain, every), strict=True):
        torch.testing.assert_close(gradient, expected, atol=1e-4, rtol=0)


@given(
    batch=st.integers(1, 3),
    kv_heads=st.sampled_from([1, 2]),
    groups=st.sampled_from([1, 3]),
    n_queries=st.integers(0, 9),
    n_keys=st.integers(0, 11),
    dtype=st.sampled_from([torch.float32, torch.float64, torch.bfloat16]),
    mask_name=st.sampled_from(list(masks(1, 1, 1))),
    score=st.sampled_from(SCORES),
    chooser=st.sampled_from(CHOOSERS),
)
def test_any_shape_mask_and_type(batch, kv_heads, groups, n_queries, n_keys, dtype, mask_name, score, chooser):
    heads = kv_heads * groups
    query, keys, values = inputs(batch, heads, n_queries, n_keys, dtype, kv_heads)
    mask = masks(n_queries, n_keys, batch)[mask_name] if n_keys else None
    score, chooser = score_of(score, dtype), chooser_of(chooser)
    context, weights = regard.attend(query, keys, values, score=score, chooser=chooser, mask=mask)
    assert context.shape == (batch, heads, n_queries, WIDTH)
    assert weights.shape == (batch, heads, n_queries, n_keys)
    assert context.dtype == weights.dtype == dtype
    assert context.isfinite().all()
    assert weights.isfinite().all()
    assert (weights >= 0).all()
    totals = weights.sum(-1).float()
    tolerance = 0.05 if dtype == torch.bfloat16 else 1e-5
    assert (((totals - 1).abs() < tolerance) | (totals == 0)).all()
    mixed = weights @ values.repeat_interleave(groups, 1)
    torch.testing.assert_close(context, mixed, atol=0.05 if dtype == torch.bfloat16 else 1e-5, rtol=0)
    for grad in gradients(context, [query, keys, values]):
        assert grad.isfinite().all()


@pytest.mark.parametrize("chooser", CHOOSERS)
@pytest.mark.parametrize("score", SCORES)
def test_watching_changes_no_bit(score, chooser):
    query, keys, values = inputs()
    score, chooser = score_of(score), make_chooser(chooser)
    torch.manual_seed(5)
    alone = regard.attend(query, keys, values, score=score, chooser=chooser, mask=causal(), dropout=0.2).context
    torch.manual_seed(5)
    with regard.watch(parts=True) as record:
        watched = regard.attend(query, keys, values, score=score, chooser=chooser, mask=causal(), dropout=0.2).context
    assert torch.equal(alone, watched)
    assert record["attend"].weights.shape == (2, 2, 5, 7)
    seen = record["attend"].allowed.expand(2, 2, 5, 7)
    assert torch.equal(seen, (torch.arange(7) <= torch.arange(5)[:, None] + 2).expand(2, 2, 5, 7))
    assert not record["attend"].weights[~seen].any()


@pytest.mark.parametrize("score", SCORES)
def test_axes_may_be_left_out(score):
    query, keys, values = inputs(heads=1)
    score = score_of(score)
    mask = torch.rand(2, 5, 7) > 0.3
    four = regard.attend(query, keys, values, score=score, mask=mask[:, None])
    three = regard.attend(query[:, 0], keys[:, 0], values[:, 0], score=score, mask=mask)
    two = regard.attend(query[1, 0], keys[1, 0], values[1, 0], score=score, mask=mask[1])
    torch.testing.assert_close(three.context, four.context[:, 0])
    torch.testing.assert_close(three.weights, four.weights[:, 0])
    torch.testing.assert_close(two.context, four.context[1, 0])
    torch.testing.assert_close(two.weights, four.weights[1, 0])


def test_a_mask_object_means_the_same_with_fewer_axes():
    query, keys, values = inputs(heads=1)
    pairs = torch.rand(2, 5, 7) > 0.3
    for chooser in ("softmax", "sparsemax"):
        three = [x[:, 0] for x in (query, keys, values)]
        context = regard.attend(*three, mask=pairs, chooser=chooser).context
        expected = regard.attend(*three, mask=Mask(pairs=pairs), chooser=chooser).context
        torch.testing.assert_close(context, expected)
    centre = torch.rand(2, 5) * 7
    near = regard.attend(*three, mask=regard.around(centre, 2)).weights
    full = regard.attend(query, keys, values, mask=regard.around(centre[:, None], 2)).weights
    torch.testing.assert_close(near, full[:, 0])


@pytest.mark.parametrize("chooser", CHOOSERS)
def test_a_bias_of_minus_infinity_forbids_as_a_mask_does(chooser):
    query, keys, values = inputs()
    allowed = torch.rand(5, 7) > 0.5
    allowed[2] = False
    bias = torch.zeros(5, 7).masked_fill(~allowed, -torch.inf)
    by_mask = regard.attend(query, keys, values, mask=allowed, chooser=chooser)
    by_bias = regard.attend(query, keys, values, bias=bias, chooser=chooser)
    torch.testing.assert_close(by_bias.context, by_mask.context)
    torch.testing.assert_close(by_bias.weights, by_mask.weights)
    assert (by_bias.weights[:, :, 2] == 0).all()


@pytest.mark.parametrize("score", SCORES)
def test_under_autocast_attention_keeps_to_float32(score):
    """Not a product is made in bfloat16, so the values are those of float32 to the bit."""
    query, keys, values = inputs()
    score = score_of(score)
    low = query.detach().bfloat16()
    bias = torch.linspace(-1, 1, 35).view(5, 7).bfloat16()
    plain = regard.attend(low.float(), keys, values, score=score, mask=causal(), bias=bias.float()).context
    with torch.autocast("cpu", torch.bfloat16):
        mixed = regard.attend(low, keys, values, score=score, mask=causal(), bias=bias).context
    assert mixed.dtype == torch.float32
    assert torch.equal(mixed, plain)


@pytest.mark.parametrize("chooser", CHOOSERS)
def test_a_score_keeps_its_own_tensor(chooser):
    """What a score returns may be its own; the softmax takes other memory then."""
    query, keys, values = (tensor.detach() for tensor in inputs())

    class Kept(make_score("dot").__class__):
        def forward(self, query: Tensor, keys: Tensor) -> Tensor:
            return kept

        def as_dot(self, query: Tensor, keys: Tensor) -> None:
            return None

    kept = torch.randn(2, 2, 5, 7)
    before = kept.clone()
    first = regard.attend(query, keys, values, score=Kept(), chooser=chooser_of(chooser)).weights
    second = regard.attend(query, keys, values, score=Kept(), chooser=chooser_of(chooser)).weights
    assert torch.equal(kept, before)
    assert torch.equal(first, second)


@pytest.mark.parametrize(("name", "scale"), [("dot", 1.0), ("scaled_dot", WIDTH**-0.5)])
def test_a_divisor_makes_scores_smaller(name, scale):
    """GPT-2's folders may ask for it, by layer."""
    query, keys, values = inputs()
    weights = regard.attend(query, keys, values, score=lookup.build(scores.__name__, name, divisor=3.0)).weights
    torch.testing.assert_close(weights, torch.softmax(query @ keys.mT * scale / 3, -1))
