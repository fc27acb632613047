"""The worked numbers of the lectures, each as printed there (or as the paper corrects it)."""

import math

import pytest
import torch

import regard
from regard.attention.heads import MultiHead
from regard.attention.positions import make_position
from regard.attention.positions.rotary import Rotary
from regard.attention.positions.rotary_ntk import RotaryNtk
from regard.attention.positions.sinusoidal import encode
from regard.attention.scores.dot import Dot

A, B = [1.0, 0.0], [0.0, 1.0]
KEYS = torch.tensor([A, A, B, A])


def test_dot_products():
    query = torch.tensor([[4.0, -2, 1, 3]])
    keys = torch.tensor([[5.0, -2, 1, 2], [1, 2, -2, 1]])
    assert Dot()(query, keys).tolist() == [[31.0, 1.0]]


def test_one_b_among_four_with_base_three():
    query = torch.tensor([B]) * math.log(3)
    context, weights = regard.attend(query, KEYS, KEYS, score="dot")
    torch.testing.assert_close(weights, torch.tensor([[1 / 6, 1 / 6, 1 / 2, 1 / 6]]))
    torch.testing.assert_close(context, torch.tensor([[1 / 2, 1 / 2]]))


def test_the_plain_average_loses_the_b():
    uniform = regard.attend(torch.zeros(1, 2), KEYS, KEYS, score="dot").context
    torch.testing.assert_close(uniform, torch.tensor([[3 / 4, 1 / 4]]))
    torch.testing.assert_close(KEYS.mean(0, keepdim=True), uniform)


def test_a_long_query_picks_the_b():
    weights = regard.attend(torch.tensor([B]) * 10, KEYS, KEYS, score="dot").weights
    torch.testing.assert_close(weights, torch.tensor([[0.0, 0.0, 1.0, 0.0]]), atol=2e-4, rtol=0)


def test_self_attention_with_ten_times_identity_queries():
    attention = MultiHead(2, 1, score="dot", bias=False)
    with torch.no_grad():
        attention.query.weight.copy_(10 * torch.eye(2))
        for part in (attention.key, attention.value, attention.output):
            part.weight.copy_(torch.eye(2))
    with regard.watch() as record:
        context = attention(KEYS[None])
    torch.testing.assert_close(context[0, 2], torch.tensor(B), atol=2e-4, rtol=0)
    torch.testing.assert_close(
        record["attention"].weights[0, 0, 2], torch.tensor([0.0, 0.0, 1.0, 0.0]), atol=2e-4, rtol=0
    )


def test_given_weights_give_that_sum():
    weights = torch.tensor([0.1, 0.1, 0.5, 0.1, 0.2])
    values = torch.randn(5, 3)
    context, back = regard.attend(torch.zeros(1, 3), torch.zeros(5, 3), values, score="dot", bias=weights.log()[None])
    torch.testing.assert_close(back[0], weights)
    expected = 0.1 * values[0] + 0.1 * values[1] + 0.5 * values[2] + 0.1 * values[3] + 0.2 * values[4]
    torch.testing.assert_close(context[0], expected)


def test_sinusoidal_positions_of_width_512():
    table = encode(torch.arange(2), 512)
    assert table[0].tolist() == [0.0, 1.0] * 256
    for printed, value in zip([0.8414, 0.5403, 0.8218], table[1, :3].tolist(), strict=True):
        assert math.floor(value * 1e4) / 1e4 == printed
    assert [math.floor(value * 1e4) / 1e4 for value in table[1, -2:].tolist()] == [0.0001, 0.9999]


def test_sinusoidal_positions_of_width_4():
    for p in (0, 1, 7, 123):
        expected = [math.sin(p), math.cos(p), math.sin(p / 100), math.cos(p / 100)]
        torch.testing.assert_close(encode(torch.tensor(p), 4), torch.tensor(expected, dtype=torch.float64))


def sentence(words: list[str], position: str) -> dict[str, torch.Tensor]:
    """One self-attention layer over word vectors that depend on the word alone; the result for each word."""
    generator = torch.Generator().manual_seed(3)
    vectors = {word: torch.randn(8, generator=generator) for word in ("I", "want", "to", "sleep")}
    torch.manual_seed(0)
    # Trained tables start out almost equal; larger ones stand in for trained ones.
    scheme = make_position(position, d_model=8, d_head=4, n_heads=2, max_len=16)
    for parameter in scheme.parameters():
        torch.nn.init.normal_(parameter)
    attention = MultiHead(8, 2, position=scheme)
    x = torch.stack([vectors[word] for word in words])[None]
    out = attention(scheme.embed(x, torch.arange(len(words))))
    return dict(zip(words, out[0], strict=True))


def test_without_positions_order_is_invisible():
    one, other = sentence(["I", "want", "to", "sleep"], "none"), sentence(["sleep", "to", "I", "want"], "none")
    for word in one:
        torch.testing.assert_close(one[word], other[word])


def test_rotary_scores_depend_on_distance_alone():
    query, key = torch.randn(1, 1, 1, 8, dtype=torch.float64), torch.randn(1, 1, 1, 8, dtype=torch.float64)
    for rotary in (Rotary(8), Rotary(8, pairs="halves"), RotaryNtk(8, factor=4.0)):

        def score(p, q, rotary=rotary):
            return (rotary.rotate(query, torch.tensor([p])) * rotary.rotate(key, torch.tensor([q]))).sum()

        torch.testing.assert_close(score(4, 1), score(6, 3), atol=1e-12, rtol=0)
        assert abs(score(4, 1) - score(4, 2)) > 1e-6


def test_rotary_frequencies_and_ntk_base():
    expected = torch.tensor([10000 ** (-2 * i / 8) for i in range(4)], dtype=torch.float64)
    torch.testing.assert_close(Rotary(8).frequencies(), expected)
    scaled = RotaryNtk(8, factor=4.0)
    assert scaled.base == pytest.approx(10000 * 4 ** (8 / 6))
    # The slowest pair is stretched by the factor exactly, the fastest not at all.
    assert (Rotary(8).frequencies()[-1] / scaled.frequencies()[-1]).item() == pytest.approx(4)
    assert scaled.frequencies()[0] == 1.0
