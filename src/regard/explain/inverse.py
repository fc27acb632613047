"""Inverse maps: trained to map a hidden state back to the vector that it came from.

linear    least squares with an intercept and a ridge, in closed form, in double precision. The ridge with the least
          squared error on held-out sentences is used, and the map is then fitted to all training sentences.
mlp       one hidden layer of gelu units, squared error, AdamW in mini-batches. The weights of the epoch with the least
          error on held-out sentences are kept; training stops when that error has not fallen for some epochs.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn

Map = Callable[[Tensor], Tensor]
Pairs = tuple[Tensor, Tensor]
"""Hidden states [N,D] and the vectors that they came from [N,D']."""

_RIDGES = (1e-8, 1e-6, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)
_ROWS = 128
_PATIENCE = 10


def linear(train: Pairs, held: Pairs) -> Map:
    """Fit to all sentences, with the ridge (in units of the states' mean variance) that is best on `held`."""
    fits = _ridge(*train)
    errors = [_error(fits(ridge), held) for ridge in _RIDGES]
    best = _RIDGES[errors.index(min(errors))]
    return _ridge(torch.cat([train[0], held[0]]), torch.cat([train[1], held[1]]))(best)


def mlp(train: Pairs, held: Pairs, *, width: int, epochs: int, seed: int) -> Map:
    """States are standardised per feature and targets by one number, so that one learning rate fits all models."""
    states, targets = train[0].float(), train[1].float()
    middle, spread = states.mean(0), states.std(0).clamp_min(1e-6)
    centre = targets.mean(0)
    scale = (targets - centre).square().mean().sqrt().clamp_min(1e-12)
    x, y = (states - middle) / spread, (targets - centre) / scale
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = nn.Sequential(nn.Linear(x.shape[1], width), nn.GELU(), nn.Linear(width, y.shape[1]))

    def apply(states_ND: Tensor) -> Tensor:
        with torch.no_grad():
            out: Tensor = net((states_ND.float() - middle) / spread) * scale + centre
        return out

    generator = torch.Generator().manual_seed(seed)
    optimiser = torch.optim.AdamW(net.parameters(), lr=2e-3, weight_decay=1e-3)
    best, kept, since = _error(apply, held), copy.deepcopy(net.state_dict()), 0
    for _ in range(epochs):
        for rows in torch.randperm(len(x), generator=generator).split(_ROWS):
            loss = (net(x[rows]) - y[rows]).square().mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        error, since = _error(apply, held), since + 1
        if error < best:
            best, kept, since = error, copy.deepcopy(net.state_dict()), 0
        if since >= _PATIENCE:
            break
    net.load_state_dict(kept)
    return apply


def _ridge(states_ND: Tensor, targets_ND: Tensor) -> Callable[[float], Map]:
    """Returns the fitted map for any ridge, from one decomposition."""
    states, targets = states_ND.double(), targets_ND.double()
    middle, centre = states.mean(0), targets.mean(0)
    x, y = states - middle, targets - centre
    values, vectors = torch.linalg.eigh(x.T @ x)
    inner = vectors.T @ (x.T @ y)

    def fitted(ridge: float) -> Map:
        penalty = ridge * values.mean().clamp_min(1e-300)
        weight = vectors @ (inner / (values.clamp_min(0) + penalty)[:, None])
        return lambda states_MD: (states_MD.double() - middle) @ weight + centre

    return fitted


def _error(fitted_map: Map, held: Pairs) -> float:
    return (fitted_map(held[0]).double() - held[1].double()).square().mean().item()
