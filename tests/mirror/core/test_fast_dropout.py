"""The fast dropout: reproducible, unbiased, independent, and honest about its speed (see benchmarks/attention.py)."""

import math

import pytest
import torch

from regard.core.errors import UsageError
from regard.core.fast_dropout import drop, keep_factors, noise_bytes
from regard.layers.dropout import Dropout


def test_the_seed_decides_everything():
    torch.manual_seed(7)
    first = keep_factors(torch.empty(1000, 33), 0.3)
    state = torch.get_rng_state()
    second = keep_factors(torch.empty(1000, 33), 0.3)
    torch.set_rng_state(state)
    assert torch.equal(keep_factors(torch.empty(1000, 33), 0.3), second)
    assert not torch.equal(first, second)
    torch.manual_seed(7)
    assert torch.equal(keep_factors(torch.empty(1000, 33), 0.3), first)


def test_the_number_of_threads_changes_nothing():
    threads, made = torch.get_num_threads(), []
    for count in (1, 2):
        torch.set_num_threads(count)
        torch.manual_seed(3)
        made.append(keep_factors(torch.empty(512, 1024), 0.1))
    torch.set_num_threads(threads)
    assert torch.equal(*made)


@pytest.mark.parametrize("p", [0.001, 0.1, 0.3, 0.5, 0.9])
def test_rate_and_mean(p):
    dropped, total = 0.0, 0.0
    for _ in range(400):
        factors = keep_factors(torch.empty(10000), p)
        dropped += (factors == 0).float().mean().item() / 400
        total += factors.mean().item() / 400
    # The dither moves whole calls by 1/256, so the rate's error is that of 400 calls, not of 4 million elements.
    assert dropped == pytest.approx(p, abs=3 * (1 / 512) / math.sqrt(400) + 3e-4)
    assert total == pytest.approx(1.0, abs=4 * math.sqrt(p / (1 - p) / 4e6) + 1e-4)


def test_bytes_are_uniform():
    counts = torch.bincount(noise_bytes(2**20).long() + 128, minlength=256).double()
    expected = 2**20 / 256
    chi_squared = ((counts - expected) ** 2 / expected).sum().item()
    assert 255 - 5 * math.sqrt(510) < chi_squared < 255 + 5 * math.sqrt(510)


@pytest.mark.parametrize("lag", [1, 2, 3, 7, 8, 9, 64, 512, 1024])
def test_bytes_are_uncorrelated(lag):
    noise = noise_bytes(2**20).double() + 0.5
    noise = noise / noise.std()
    correlation = (noise[:-lag] * noise[lag:]).mean().item()
    assert abs(correlation) < 5 / math.sqrt(2**20)


def test_calls_are_uncorrelated():
    """Consecutive draws of torch's generator start the counter at unrelated places."""
    first, second = (noise_bytes(2**20).double() + 0.5 for _ in range(2))
    assert abs(torch.corrcoef(torch.stack([first, second]))[0, 1].item()) < 5 / math.sqrt(2**20)


def test_every_bit_of_the_seed_matters():
    """Neighbouring counters (as neighbouring seeds would give) share no pattern, in any byte of the word."""
    noise = (noise_bytes(2**20).view(-1, 8).double() + 0.5) / 73.9
    for byte in range(8):
        column = noise[:, byte]
        for step in (1, 2, 16):
            assert abs((column[:-step] * column[step:]).mean().item()) < 5 / math.sqrt(2**17)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_types_and_odd_sizes(dtype):
    for shape in [(), (0, 4), (1,), (7, 3)]:
        out = drop(torch.ones(shape, dtype=dtype), 0.5)
        assert out.shape == shape
        assert out.dtype == dtype


def test_edges():
    x = torch.randn(5, requires_grad=True)
    assert drop(x, 0.0) is x
    assert drop(x, 0.7, training=False) is x
    assert (drop(x, 1.0) == 0).all()
    with pytest.raises(UsageError, match="1.2.*0 to 1"):
        drop(x, 1.2)


def test_gradient_is_the_factor():
    x = torch.randn(1000, requires_grad=True)
    out = Dropout(0.4)(x)
    out.sum().backward()
    torch.testing.assert_close(x.grad * x, out)
    assert (x.grad == 0).any()


def test_module_follows_training_mode():
    module, x = Dropout(0.5).eval(), torch.randn(8)
    assert module(x) is x
    assert "p=0.5" in repr(module)
