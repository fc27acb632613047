"""‖∂c_j/∂x_i‖² for all tokens: how much each hidden state changes with each input vector.

The model is run on copies of one row, with its input vectors replaced by a leaf tensor, and only up to the requested
layer. Each copy propagates one cotangent back: a unit vector for the exact norm (d per token), or a random sign vector
for an estimate. With signs z, E‖Jᵀz‖² = ‖J‖²_F, so the mean over probes is unbiased, and their spread gives its
standard error. For a stack of plain attention blocks, `blocks` computes the same with far fewer operations.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.core import taps
from regard.explain.blocks import Block, Stack
from regard.explain.subject import Subject

_COPIES = 32


@dataclass(frozen=True)
class Moved:
    """Squared norms [T,S] of each state with respect to each input vector; `error` is an estimate's standard error."""

    squares: Tensor
    error: Tensor | None = None
    fast: bool = False
    """Whether the structure of the blocks was used."""

    @property
    def norms(self) -> Tensor:
        return self.squares.clamp_min(0).sqrt()

    @property
    def contributions(self) -> Tensor:
        """Each row's norms as shares of their sum."""
        return self.norms / self.norms.sum(1, keepdim=True).clamp_min(1e-30)


class _Reached(Exception):
    """Stops the run at the requested layer."""

    def __init__(self, hidden: Tensor) -> None:
        self.hidden = hidden


def run_to(subject: Subject, layer: str, inputs: str, x: Tensor) -> Tensor:
    """The states of `layer` [N,T,D] for the vectors x [N,S,D'] at `inputs`."""

    def stop(_: str, hidden: Tensor) -> Tensor:
        raise _Reached(hidden)

    try:
        with taps.alter({inputs: lambda _, __: x, layer: stop}):
            subject.run(**subject.inputs)
    except _Reached as reached:
        return reached.hidden
    raise AssertionError(f"{layer} was not reached")


def moved(
    subject: Subject,
    row: int,
    states: dict[str, Tensor],
    *,
    layer: str,
    inputs: str,
    lengths: tuple[int, int],
    probes: int | None = None,
    seed: int = 0,
    plain: bool = False,
    known: dict[str, Block | None] | None = None,
) -> Moved:
    """Squared norms of ∂(states of `layer`)/∂(vectors at `inputs`) for one row of the subject.

    `states` are the trace's hidden states. `lengths` are the numbers of real tokens on the layer's side and on the
    inputs' side. `probes` random sign vectors per token replace the unit vectors. `plain` never uses the structure of
    blocks. `known` holds blocks that were computed for another layer.
    """
    n_tokens, n_inputs = lengths
    stack = None if plain else Stack.between(subject, row, states, inputs, layer, known)
    total = torch.zeros(n_tokens, n_inputs, dtype=torch.float64)
    spread = torch.zeros_like(total)
    if stack is not None:
        squares = stack.squares(n_tokens, probes, seed)
    else:
        squares = _by_copies(subject, row, states[inputs][row], layer, inputs, n_tokens, probes, seed)
    for token, part in squares:
        real_PS = part[:, :n_inputs].double()
        total[token] += real_PS.sum(0)
        spread[token] += real_PS.square().sum(0)
    if probes is None:
        return Moved(total, fast=stack is not None)
    mean = total / probes
    variance = (spread / probes - mean.square()).clamp_min(0) * probes / max(probes - 1, 1)
    return Moved(mean, (variance / probes).sqrt(), stack is not None)


def cotangents(width: int, probes: int | None, seed: int, token: int, dtype: torch.dtype) -> Tensor:
    """The cotangents of one token: unit vectors [D,D], or random signs [P,D]."""
    if probes is None:
        return torch.eye(width, dtype=dtype)
    generator = torch.Generator().manual_seed(seed * 1_000_003 + token)
    return torch.randint(0, 2, (probes, width), generator=generator).to(dtype) * 2 - 1


def _by_copies(
    subject: Subject, row: int, x: Tensor, layer: str, inputs: str, n_tokens: int, probes: int | None, seed: int
) -> Iterator[tuple[int, Tensor]]:
    copies = subject.repeated(_COPIES, row)
    leaf = x.detach().expand(_COPIES, *x.shape).clone().requires_grad_()
    with torch.enable_grad():
        hidden = run_to(copies, layer, inputs, leaf)
    vectors = torch.cat([cotangents(hidden.shape[2], probes, seed, token, hidden.dtype) for token in range(n_tokens)])
    each = len(vectors) // n_tokens
    for start in range(0, len(vectors), _COPIES):
        part = vectors[start : start + _COPIES]
        places = torch.arange(start, start + len(part)) // each
        back = torch.zeros_like(hidden)
        back[torch.arange(len(part)), places] = part
        (slopes,) = torch.autograd.grad(hidden, leaf, back, retain_graph=True)
        squares = slopes[: len(part)].double().square().sum(2)
        for token in places.unique().tolist():
            yield token, squares[places == token]
