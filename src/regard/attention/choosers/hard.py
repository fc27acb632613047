"""Hard attention (Xu et al. 2015): attend to a single key.

In training one key is sampled from softmax(scores); in evaluation the key with the highest score is taken. Sampling
passes no gradient to the scores, so they learn by REINFORCE:

    loss = −(reward − b) · log p(chosen),      b ← decay · b + (1 − decay) · reward

with a moving baseline b that lowers the variance. `Attended.log_prob` is log p(chosen).
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn


class Hard(nn.Module):
    fused = False

    @property
    def stochastic(self) -> bool:
        return self.training

    def forward(self, scores: Float[Tensor, "*BHQ K"]) -> Float[Tensor, "*BHQ K"]:
        ranked = scores.detach()
        if self.training:
            # The largest of score + Gumbel noise is a sample of the softmax.
            ranked = ranked - torch.empty_like(ranked, dtype=torch.float32).exponential_().log_()
        chosen = ranked.argmax(-1, keepdim=True)
        return torch.zeros_like(scores).scatter_(-1, chosen, 1.0)

    @staticmethod
    def log_prob(scores: Float[Tensor, "*BHQ K"], weights: Float[Tensor, "*BHQ K"]) -> Float[Tensor, "*BHQ"]:
        """log p(chosen) [B,H,Q]; 0 for a row that may see nothing."""
        return (torch.log_softmax(scores, dim=-1) * weights).sum(-1)


class MovingBaseline(nn.Module):
    """The running mean of rewards that REINFORCE subtracts; a buffer, so that it is saved with the model."""

    value: Tensor
    started: Tensor

    def __init__(self, decay: float = 0.9) -> None:
        super().__init__()
        self.decay = decay
        self.register_buffer("value", torch.zeros(()))
        self.register_buffer("started", torch.zeros((), dtype=torch.bool))

    def forward(self, log_prob: Float[Tensor, "*BHQ"], reward: Tensor) -> Float[Tensor, ""]:
        """The surrogate loss for `reward` (per row or per choice, broadcastable to `log_prob`); updates b."""
        reward = reward.detach()
        baseline = self.value if self.started else reward.mean()
        loss = -((reward - baseline) * log_prob).mean()
        if self.training:
            self.value.copy_(self.decay * baseline + (1 - self.decay) * reward.mean())
            self.started.fill_(True)
        return loss
