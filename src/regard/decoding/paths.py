"""Unfinished outputs: one path for each row of the model's batch, all of the same length.

A row of the request has one path (greedy), several that compete (beam), or several that do not (sampling).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regard.decoding.request import Request


@dataclass(frozen=True)
class Paths:
    """`copy` tells the independent draws of a row apart; `cover` is the attention each input has got, if asked for."""

    row_N: Tensor
    copy_N: Tensor
    tokens_NT: Tensor
    log_prob_N: Tensor
    cover_NK: Tensor | None = None

    def __len__(self) -> int:
        return len(self.row_N)

    @property
    def length(self) -> int:
        return self.tokens_NT.shape[1]

    def at(self, index_M: Tensor) -> Paths:
        """The paths with these indices, or where a flag is True."""
        return Paths(
            self.row_N[index_M],
            self.copy_N[index_M],
            self.tokens_NT[index_M],
            self.log_prob_N[index_M],
            None if self.cover_NK is None else self.cover_NK[index_M],
        )

    def ending(self, log_prob_N: Tensor) -> Paths:
        """The same tokens at another log-probability."""
        return replace(self, log_prob_N=log_prob_N)

    def extend(self, token_N: Tensor, log_prob_N: Tensor) -> Paths:
        return replace(self, tokens_NT=torch.cat([self.tokens_NT, token_N[:, None]], 1), log_prob_N=log_prob_N)


def start(request: Request) -> Paths:
    """One path a row, which holds as much of the forced prefixes as can be read at once."""
    row_N = torch.arange(len(request.numbers), device=request.limit_B.device)
    tokens_NT = request.prefix_BP[:, : request.common]
    return Paths(row_N, torch.zeros_like(row_N), tokens_NT, torch.zeros_like(row_N, dtype=torch.float64))
