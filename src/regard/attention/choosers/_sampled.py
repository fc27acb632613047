"""Hard attention as Xu et al. (2015) train it: some rows attend to one sampled key, the others to all keys (soft).

    row b:  s ~ α, or with `expected` the expectation α itself;  H = −Σ α log α

With probability ½ an image gets its expected attention, which lowers the variance of the estimated gradient. A new
chooser is made for each forward pass, since it stores which rows get their expectation. `entropy` [B,H,Q] is the
entropy of its last call.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.attention.choosers.hard import Hard

_LOWEST = -80.0
"""Logarithms are clamped here: a key with weight 0 then adds nothing to the entropy, and no NaN to its gradient."""


class Sampled:
    fused = False
    stochastic = True

    def __init__(self, expected_B: Bool[Tensor, " B"]) -> None:
        self.expected_B, self._hard = expected_B, Hard().train()
        self.entropy: Tensor | None = None

    def __call__(self, scores: Float[Tensor, "B H Q K"]) -> Float[Tensor, "B H Q K"]:
        logs = torch.log_softmax(scores, dim=-1)
        shares = logs.exp()
        self.entropy = -(shares * logs.clamp(min=_LOWEST)).sum(-1)
        return torch.where(self.expected_B[:, None, None, None], shares, self._hard(scores))

    def log_prob(self, scores: Float[Tensor, "B H Q K"], weights: Tensor) -> Float[Tensor, "B H Q"]:
        """log p of the sampled keys; 0 where nothing was sampled."""
        chosen = self._hard.log_prob(scores, weights.detach())
        return chosen.masked_fill(self.expected_B[:, None, None], 0.0)
