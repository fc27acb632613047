"""ALiBi (Press et al. 2022), acting on the scores: −m_h · |distance| with a fixed slope m_h per head and no parameters.

Slopes are 2^(−8·h/H) for h = 1…H if H is a power of two. Otherwise they are the slopes of the next lower power,
followed by every second slope of twice that power, as in the authors' code. The scheme extrapolates: the additional
keys of a longer input get little weight.
"""

from __future__ import annotations

import math

from jaxtyping import Float
from torch import Tensor

from regard.attention.positions._scheme import Position


def slopes(n_heads: int) -> list[float]:
    power = 2 ** math.floor(math.log2(n_heads))
    regular = [2.0 ** (-8.0 * head / power) for head in range(1, power + 1)]
    return regular + [2.0 ** (-4.0 * head / power) for head in range(1, 2 * (n_heads - power), 2)]


class Alibi(Position):
    biased = True

    def __init__(self, n_heads: int) -> None:
        super().__init__()
        self.slopes = slopes(n_heads)

    def bias(self, query: Float[Tensor, "B H Q E"], distance: Tensor) -> Tensor:
        return -query.new_tensor(self.slopes)[:, None, None] * distance.abs()
