"""Dropout that draws its random factors several times faster than torch's CPU `bernoulli_`, and as reproducibly.

torch draws one Mersenne Twister number per element, serially. Here one number is drawn from torch's generator (so
`torch.manual_seed` and a saved generator state decide everything). A counter-based hash expands it to eight random
bytes per 64-bit word, in vectorised integer arithmetic. The bytes are the same for any number of threads.

A byte can only express rates in 1/256ths, so the threshold is dithered: each call drops at one of the two neighbouring
rates, chosen so that the expected rate is exactly p, and scales by the rate it used. Every call is unbiased.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from regard.core.errors import UsageError

# splitmix64 (Steele et al. 2014): the step of its counter, then pairs (bits to fold by, factor to multiply by). The
# numbers are signed 64-bit integers because torch has no unsigned ones.
_STEP = -7046029254386353131
_ROUNDS = ((30, -4658895280553007687), (27, -7723592293110705685), (31, 1))
_LEVELS = 256


def noise_bytes(count: int) -> Tensor:
    """`count` independent uniform bytes as int8 in [-128, 127], from one draw of torch's default generator."""
    seed = int(torch.randint(0, 2**62, (1,)).item())
    words = torch.arange(seed, seed + (count + 7) // 8, dtype=torch.int64).mul_(_STEP)
    for bits, factor in _ROUNDS:
        folded = words >> bits
        folded &= (1 << (64 - bits)) - 1  # torch shifts in copies of the sign bit; the hash needs zeros
        words ^= folded
        words *= factor
    return words.view(torch.int8)[:count]


def keep_factors(like: Tensor, p: float) -> Tensor:
    """A tensor shaped like `like`: 0 with probability p, otherwise 1/(1 - rate), so that its mean is 1."""
    threshold = _dithered_threshold(p)
    if threshold == 0:
        return torch.ones_like(like)
    if threshold == _LEVELS:
        return torch.zeros_like(like)
    noise = noise_bytes(like.numel()).view(like.shape)
    # Comparing directly into a floating tensor is several times faster here than comparing and then converting.
    keep = torch.ge(noise, threshold - 128, out=torch.empty(like.shape, dtype=like.dtype))
    return keep.mul_(_LEVELS / (_LEVELS - threshold)).to(like.device)


def drop(x: Tensor, p: float, *, training: bool = True) -> Tensor:
    """Dropout (Srivastava et al. 2014), scaled during training so that evaluation needs no scaling."""
    if not 0.0 <= p <= 1.0:
        raise UsageError("dropout rate out of range", got=p, expected="a number from 0 to 1")
    if not training or p == 0.0:
        return x
    return x * keep_factors(x, p)


def _dithered_threshold(p: float) -> int:
    low = math.floor(p * _LEVELS)
    rest = p * _LEVELS - low
    return low + int(rest > 0 and torch.rand(()).item() < rest)
