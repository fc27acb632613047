"""The encoded source of a recurrent encoder–decoder, and the results that its decoder takes from attention to it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention import Attended
from regard.attention.choosers._sampled import Sampled
from regard.core.groups import Groups


@dataclass(frozen=True)
class Memory:
    """The encoded source: prepared keys and values [B,1,S,·], the mask of real positions, and the lengths [B]."""

    keys: Tensor
    values: Tensor
    real: Tensor
    lengths: Tensor


PARTS: dict[str, int | None] = {"keys": 2, "values": 2, "real": 1, "lengths": None}
"""The parts of a memory, and the axis along which sources differ in length."""


def choices_of(attended: Attended, chooser: Sampled) -> tuple[Tensor, Tensor]:
    """log p of the sampled positions, and the entropy of their distributions [B,1,Q]."""
    assert attended.log_prob is not None
    assert chooser.entropy is not None
    return attended.log_prob, chooser.entropy


def context_of(attended: Attended, groups: Groups | None) -> Float[Tensor, "N E"]:
    """The context of each row's single query."""
    context = attended.context if groups is None else groups.apart(attended.context)
    return context[:, 0, 0]


def times_of(start: int | Tensor, n_queries: int, query: Tensor, groups: Groups | None) -> Tensor:
    """The step of each query [B,1,Q]; with `groups`, of each source's queries."""
    steps_Q = torch.arange(n_queries, device=query.device)
    if groups is None:
        return (start + steps_Q).expand(len(query), 1, -1) if isinstance(start, int) else start[:, None, None] + steps_Q
    starts_N = torch.full_like(groups.places_N, start) if isinstance(start, int) else start
    return groups.together((starts_N[:, None, None] + steps_Q)[..., None])[..., 0]
