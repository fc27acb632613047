"""The score that ranks hypotheses (Wu et al. 2016, eq. 14), and the best score that a live path can still reach.

    score = log P / D(n) + β · cp        cp = Σ_i log min(Σ_t a_ti, 1)

Where we differ: both terms rank finished hypotheses only. The beam itself is pruned by log P alone, since its paths all
have the same length. A sum of zero, whose logarithm would be −inf, counts as the smallest normal float32. a is the mean
over heads. Scores are float64.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.core.search import Search

_LEAST = torch.finfo(torch.float32).tiny


def divisor(n: Tensor, search: Search) -> Tensor:
    """D(n), which never falls as n grows."""
    base = (n.double() + 5.0) / 6.0 if search.length_form == "wu" else n.double().clamp(min=1.0)
    return base**search.length_penalty


def coverage(attended_NK: Tensor) -> Tensor:
    """cp [N], at most 0, from the attention that each input has received so far. Padding has 1 and adds nothing."""
    return attended_NK.double().clamp(min=_LEAST, max=1.0).log().sum(-1)


def reachable(log_prob: Tensor, n_max: Tensor, search: Search) -> Tensor:
    """The best score that any continuation can get: log P only falls, D is largest at n_max, cp is at most 0."""
    return log_prob / divisor(n_max, search)
