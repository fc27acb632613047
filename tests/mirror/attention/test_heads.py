"""Multi-head attention against torch's own, grouped heads, prepared memory, state and the value path."""

import pytest
import torch
from torch import nn

import regard
from regard.attention import Mask, causal, padding
from regard.attention.heads import KeyValues, MultiHead
from regard.core import lookup
from regard.core.groups import Groups
from regard.core.state import State


def torch_twin(ours: MultiHead) -> nn.MultiheadAttention:
    theirs = nn.MultiheadAttention(16, 4, batch_first=True)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([p.weight for p in (ours.query, ours.key, ours.value)]))
        theirs.in_proj_bias.copy_(torch.cat([p.bias for p in (ours.query, ours.key, ours.value)]))
        theirs.out_proj.weight.copy_(ours.output.weight)
        theirs.out_proj.bias.copy_(ours.output.bias)
    return theirs


def test_equals_torch():
    ours, x, memory = MultiHead(16, 4), torch.randn(3, 5, 16), torch.randn(3, 7, 16)
    for part in (ours.query, ours.key, ours.value, ours.output):
        nn.init.normal_(part.bias)
    real = torch.arange(7) < torch.tensor([2, 7, 4])[:, None]
    with regard.watch() as record:
        mixed = ours(x, ours.prepare(memory), mask=Mask(keys=real))
    expected, weights = torch_twin(ours)(x, memory, memory, key_padding_mask=~real, average_attn_weights=False)
    torch.testing.assert_close(mixed, expected)
    torch.testing.assert_close(record["attention"].weights, weights)


@pytest.mark.parametrize("n_kv_heads", [1, 2, 4])
def test_grouped_heads_equal_full_heads_with_repeated_weights(n_kv_heads):
    grouped, full = MultiHead(16, 4, n_kv_heads=n_kv_heads), MultiHead(16, 4)
    full.load_state_dict(grouped.state_dict() | {
        f"{part}.{kind}": getattr(getattr(grouped, part), kind)
        .unflatten(0, (n_kv_heads, 4)).repeat_interleave(4 // n_kv_heads, 0).flatten(0, 1)
        for part in ("key", "value") for kind in ("weight", "bias")
    })  # fmt: skip
    x = torch.randn(2, 6, 16)
    torch.testing.assert_close(grouped(x, mask=causal()), full(x, mask=causal()))


@pytest.mark.parametrize("score", lookup.names("regard.attention.scores"))
@pytest.mark.parametrize("n_kv_heads", [1, 2])
def test_cached_steps_equal_the_whole(score, n_kv_heads):
    from regard.attention import make_score

    attention = MultiHead(16, 4, n_kv_heads=n_kv_heads, score=make_score(score, 4, 4, max_keys=32))
    x, state, chunks = torch.randn(2, 9, 16), State(paths=2, capacity=3), []
    whole = attention(x, mask=causal())
    with torch.no_grad():
        for a, b in [(0, 4), (4, 5), (5, 8), (8, 9)]:
            rows = state.rows(torch.arange(2), torch.full((2,), b - a), b - a)
            chunks.append(attention(x[:, a:b], mask=causal(), rows=rows))
            rows.advance()
    torch.testing.assert_close(torch.cat(chunks, 1), whole, atol=1e-5, rtol=0)
    assert state.lengths_P.tolist() == [9, 9]


def test_queries_of_one_memory_may_stand_together():
    """Several rows that read from one source: as if each had its own copy of it."""
    attention, memory, x = MultiHead(16, 4), torch.randn(2, 5, 16), torch.randn(4, 1, 16)
    prepared, sources = attention.prepare(memory), [1, 0, 1, 1]
    apart = attention(x, KeyValues(*(part[sources] for part in prepared)))
    together = attention(x, prepared, groups=Groups(sources, torch.device("cpu")))
    torch.testing.assert_close(together, apart, atol=1e-6, rtol=0)


def test_padding_changes_nothing():
    attention, x = MultiHead(16, 4), torch.randn(1, 5, 16)
    padded = torch.cat([x, torch.full((1, 3, 16), 7.0)], 1)
    out = attention(padded, mask=padding(torch.tensor([5]), 8))[:, :5]
    torch.testing.assert_close(out, attention(x), atol=1e-6, rtol=0)


@pytest.mark.parametrize("n_kv_heads", [1, 2, 4])
def test_value_path_leads_to_the_output(n_kv_heads):
    """Σ_h weights_h · T_h + bias is the layer's output: T is all that the values can do."""
    attention, x = MultiHead(16, 4, n_kv_heads=n_kv_heads), torch.randn(2, 6, 16)
    with regard.watch(parts=True, value_path=True) as record:
        out = attention(x)
    seen = record["attention"]
    assert seen.value_path.shape == (2, 4, 6, 16)
    assert seen.query.shape == (2, 4, 6, 4)
    rebuilt = (seen.weights @ seen.value_path).sum(1) + attention.output.bias
    torch.testing.assert_close(rebuilt, out, atol=1e-5, rtol=0)


def test_heads_are_views_of_one_projection():
    attention, x = MultiHead(16, 4), torch.randn(2, 6, 16)
    keys = attention.prepare(x).keys
    assert keys.shape == (2, 4, 6, 4)
    assert keys.stride() == (96, 4, 16, 1), "split by strides, not by copying"


def test_unobserved_attention_takes_the_fused_kernel():
    x = torch.randn(2, 6, 16, requires_grad=True)
    attention = MultiHead(16, 4)
    with torch.profiler.profile() as seen:
        attention(x, mask=causal())
    assert any("flash_attention" in event.key for event in seen.key_averages())


def test_dropout_acts_in_training_only():
    x = torch.randn(2, 5, 16)
    plain, dropped = MultiHead(16, 4), MultiHead(16, 4, dropout=0.5)
    dropped.load_state_dict(plain.state_dict())
    torch.testing.assert_close(dropped.eval()(x), plain.eval()(x))
    assert plain(x).abs().max() > 0.01
    assert not torch.equal(dropped.train()(x), dropped(x))
