"""The memory of the Neural Turing Machine (Graves et al. 2014): rows that are read and written by attention.

    content    w^c = softmax(β · cos(k, M))                  by the contents of a row, sharper with larger β
    gate       w^g = g · w^c + (1 − g) · w_{t−1}             or stay near the previous position
    shift      w~(i) = Σ_j w^g(j) · s(i − j)                 move by a distribution over −1, 0, +1
    sharpen    w(i) = w~(i)^γ / Σ w~^γ
    read       r = Σ w(i) M(i)
    write      M(i) ← M(i) ∘ (1 − w(i) e) + w(i) a           erase e in [0,1], add a

Reading by content is `attend` with the cosine score; H heads address the memory [B,N,M] in parallel.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.attend import Attended, attend
from regard.attention.scores.cosine import Cosine
from regard.core import taps

READS, WRITES = taps.Axes("input", "memory"), taps.Axes("input", "memory", mixes=False)


class Address(NamedTuple):
    """The output of a controller for H heads. For content addressing alone, `gate` and the later fields stay None."""

    key: Float[Tensor, "B H M"]
    strength: Float[Tensor, "B H"]
    gate: Float[Tensor, "B H"] | None = None
    shift: Float[Tensor, "B H S"] | None = None
    sharpen: Float[Tensor, "B H"] | None = None


def read_by_content(memory: Float[Tensor, "B N M"], address: Address, *, site: str | None = "memory") -> Attended:
    """`context` [B,H,1,M] read by content alone, `weights` [B,H,1,N]."""
    rows = memory.unsqueeze(1)
    score = Cosine(strength=address.strength[:, :, None, None])
    return attend(address.key.unsqueeze(2), rows, rows, score=score, site=site, axes=READS)


def locate(
    memory: Float[Tensor, "B N M"], address: Address, previous: Float[Tensor, "B H N"] | None = None
) -> Float[Tensor, "B H N"]:
    """All four steps of addressing; steps that the address leaves out do nothing."""
    # This does not call `attend`: these weights are not the final ones, so watchers do not need them, and a model that
    # runs step by step should use few operations.
    query, rows, _ = Cosine(strength=address.strength.unsqueeze(-1)).as_dot(address.key, memory)
    weights = torch.softmax(query @ rows.mT, dim=-1)
    if address.gate is not None and previous is not None:
        weights = torch.lerp(previous, weights, address.gate.unsqueeze(-1))
    if address.shift is not None:
        weights = _turned(weights, address.shift)
    if address.sharpen is not None:
        # In logarithms, so that a small weight to a high power does not underflow before it is normalised.
        tiny = torch.finfo(weights.dtype).tiny
        weights = torch.softmax(address.sharpen.unsqueeze(-1) * weights.clamp_min(tiny).log(), dim=-1)
    return weights


def _turned(weights: Tensor, shift: Tensor) -> Tensor:
    """The circular convolution of weights [B,H,N] with a distribution over shifts [B,H,S], in one product."""
    reach = shift.shape[-1] // 2
    if not reach:
        return weights * shift
    ring = torch.cat([weights[..., -reach:], weights, weights[..., :reach]], dim=-1)
    # Window i holds w(i − reach) … w(i + reach): a shift by +1 comes from w(i − 1), so the shifts are read backwards.
    return (ring.unfold(-1, shift.shape[-1], 1) @ shift.flip(-1).unsqueeze(-1)).squeeze(-1)


def read_memory(
    memory: Float[Tensor, "B N M"], weights: Float[Tensor, "B H N"], *, site: str = "memory"
) -> Float[Tensor, "B H M"]:
    """The vector r that each head reads. Watchers get the final weights and the current memory."""
    context = weights @ memory
    if not taps.watched():
        return context
    rows, context = memory.unsqueeze(1), context.unsqueeze(2)
    taps.report(site, context, rows, rows, lambda: weights.unsqueeze(2), axes=READS)
    return taps.altered(site, context).squeeze(2)


def write(
    memory: Float[Tensor, "B N M"],
    weights: Float[Tensor, "B H N"],
    erase: Float[Tensor, "B H M"],
    add: Float[Tensor, "B H M"],
    *,
    site: str | None = None,
) -> Float[Tensor, "B N M"]:
    """The memory after all heads have erased and then all heads have added.

    With a site, watchers get the weights and the memory before the write, and `taps.alter` changes the vectors that the
    heads add."""
    if site is not None and taps.watched():
        rows, added = memory.unsqueeze(1), add.unsqueeze(2)
        taps.report(site, added, rows, rows, lambda: weights.unsqueeze(2), axes=WRITES)
        add = taps.altered(site, added).squeeze(2)
    if weights.shape[1] == 1:
        kept = 1 - weights.mT * erase
    else:
        kept = torch.prod(1 - weights.unsqueeze(-1) * erase.unsqueeze(2), dim=1)
    return torch.addcmul(weights.mT @ add, memory, kept)
