"""One attention call in a canonical form that `attend` and `local` share."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.attention.masks import Mask
from regard.core.contracts import BiasFunction, Chooser, GainFunction, Score


@dataclass(frozen=True, eq=False)
class Stages:
    """The tensors ([B,H,Q,E], [B,H',K,E], [B,H',K,E']; H' divides H), and the piece chosen for each stage."""

    query: Tensor
    keys: Tensor
    values: Tensor
    score: Score
    mask: Mask
    bias: Tensor | BiasFunction | None
    chooser: Chooser
    gain: Tensor | GainFunction | None
    dropout: float

    @property
    def n_queries(self) -> int:
        return self.query.shape[2]

    @property
    def n_keys(self) -> int:
        return self.keys.shape[2]

    def distance(self) -> Tensor:
        return self.mask.distance(self.n_queries, self.n_keys, self.query.device)

    def allowed(self) -> Tensor | None:
        return self.mask.dense(self.n_queries, self.n_keys, self.query.device)

    def evaluate_bias(self) -> Tensor:
        assert self.bias is not None
        bias = self.bias if isinstance(self.bias, Tensor) else self.bias(self.query, self.distance())
        return bias.to(self.query.dtype)

    def evaluate_gain(self) -> Tensor:
        assert self.gain is not None
        gain = self.gain if isinstance(self.gain, Tensor) else self.gain(self.distance())
        return gain.to(self.query.dtype)


def share_heads(tensor: Tensor, n_heads: int) -> Tensor:
    """Grouped-query attention: repeat each key head for the query heads that share it (a single head broadcasts)."""
    return tensor if tensor.shape[1] in (1, n_heads) else tensor.repeat_interleave(n_heads // tensor.shape[1], dim=1)


def place_range(first: Tensor, width: int) -> Tensor:
    """first [...] → the `width` consecutive key positions that begin at each [..., width]."""
    return first.unsqueeze(-1) + torch.arange(width, device=first.device)
