"""Runs a model once under `watch` and keeps the requested parts in a `Trace`.

Weights are computed only for the requested sites, beside the fused kernel; the model's own result does not change. T,
the values times a head's slice W of the output projection (K × D), is stored as two thin factors: with Wᵀ = Q R,

    T = V W = (V Rᵀ) Qᵀ = path · frame        path [K,E], frame [E,D] with orthonormal rows

so `path` has the null space and the singular values of T at a fraction of its size. The gradient of the answer with
respect to a weight A_qk is ∂y/∂context_q · v_k: one backward pass to the contexts gives all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.core import taps
from regard.core.errors import UnknownName
from regard.explain.subject import Subject
from regard.explain.traces import Site, Trace


def record(
    subject: Subject,
    *,
    sites: str | Sequence[str] = "*",
    weights: bool = True,
    hidden: bool = True,
    value_path: bool = False,
    gradients: bool = False,
) -> Trace:
    """Run the subject once. `sites` are names of sites or layers, or shell patterns; `hidden` keeps all layers' states.

    `value_path` keeps the factors of T; `gradients` keeps the gradients of the answer with respect to the weights.
    """
    patterns = [sites] if isinstance(sites, str) else list(sites)
    asked = [*patterns, *(f"{pattern}.*" for pattern in patterns)]
    contexts: dict[str, list[Tensor]] = {}
    scores = None
    with (
        taps.watch(asked, weights=weights, parts=value_path or gradients, slices=value_path, hidden=False) as seen,
        taps.watch("*" if hidden else [], weights=False) as states,
        torch.set_grad_enabled(gradients),
    ):
        if gradients:
            scores = _with_graph(subject, seen, contexts)
        else:
            subject.run(**subject.inputs)
    if not seen.sites and sites != "*" and sites != ["*"]:
        _no_such_site(subject, sites)
    slopes = dict[str, Tensor]() if scores is None else _slopes(scores, contexts)
    return Trace(
        subject.name,
        subject.task,
        {side: [list(row) for row in rows] for side, rows in subject.sides.items()},
        {name: _site(seen.calls(name), slopes.get(name)) for name in seen.sites},
        {name: torch.cat(parts, 1) for name, parts in states.hidden.items()} if hidden else {},
        dict(subject.ids),
        dict(subject.output) | ({} if scores is None else {"scores": scores.tolist()}),
        dict(subject.grids),
        dict(states.hidden_axes) if hidden else {},
        list(subject.texts),
        subject,
    )


def _with_graph(subject: Subject, seen: taps.Record, contexts: dict[str, list[Tensor]]) -> Tensor:
    def begin(_: str, x: Tensor) -> Tensor:
        return x.detach().requires_grad_()

    def keep(name: str, x: Tensor) -> Tensor:
        if x.dim() == 4 and seen.wants(name):
            contexts.setdefault(name, []).append(x)
        return x

    with taps.alter({"*.input": begin, "*": keep}):
        return subject.scores()


def _slopes(scores: Tensor, contexts: dict[str, list[Tensor]]) -> dict[str, Tensor]:
    """∂score/∂context of each site [B,H,Q,E]."""
    flat = [x for parts in contexts.values() for x in parts]
    gradients = iter(torch.autograd.grad(scores.sum(), flat, allow_unused=True))
    slopes = {}
    for name, parts in contexts.items():
        given = [next(gradients) for _ in parts]
        filled = [torch.zeros_like(x) if slope is None else slope for x, slope in zip(parts, given, strict=True)]
        slopes[name] = torch.cat(filled, 2)
    return slopes


def _site(calls: list[taps.Seen], slope: Tensor | None) -> Site:
    """One site. A recurrent model calls it once per step: the queries of all calls are joined in order, and keys that a
    call did not have get weight 0. If the values change between calls, each call has its own T."""
    first, n_keys = calls[0], max(_end(call) for call in calls)
    weights = [_widened(call.weights, n_keys, call) for call in calls if call.weights is not None]
    path = frame = gradients = calls_Q = None
    values = [_shared(call) for call in calls if call.values is not None]
    if values:
        slices = None if slope is None or not first.axes.mixes else slope.split([part.shape[2] for part in weights], 2)
        if slices is not None:
            parts = [_widened(dy @ v.mT, n_keys, call) for dy, v, call in zip(slices, values, calls, strict=True)]
            gradients = torch.cat(parts, 2).detach()
        if not _alike(values):
            counts = [1 if call.query is None else call.query.shape[2] for call in calls]
            calls_Q = torch.arange(len(calls)).repeat_interleave(torch.tensor(counts))
        several = calls[:1] if calls_Q is None else calls
        filled = [_widened(v.mT, n_keys, call).mT for v, call in zip(values, several, strict=False)]
        path = filled[0] if calls_Q is None else torch.stack(filled, 2)
        if first.slices is not None:
            basis, triangle = torch.linalg.qr(first.slices.mT)
            path, frame = path @ (triangle.mT if calls_Q is None else triangle.mT[:, None]), basis.mT
            frame = frame if calls_Q is None else frame[:, None]
    return Site(
        first.site,
        first.axes.queries,
        first.axes.keys,
        torch.cat(weights, 2) if len(weights) > 1 else next(iter(weights), None),
        _allowed(calls, n_keys),
        path,
        frame,
        gradients,
        first.axes.rows,
        calls_Q,
    )


def _end(call: taps.Seen) -> int:
    """The place after the call's last key."""
    parts = ((call.weights, 3), (call.values, 2))
    return call.axes.first_key + max((tensor.shape[axis] for tensor, axis in parts if tensor is not None), default=0)


def _widened(tensor: Tensor, n_keys: int, call: taps.Seen) -> Tensor:
    """Pad [B,H,Q,K] to `n_keys` with keys of weight 0, before and after those of the call."""
    before = call.axes.first_key
    return tensor if tensor.shape[3] == n_keys else F.pad(tensor, (before, n_keys - before - tensor.shape[3]))


def _shared(call: taps.Seen) -> Tensor:
    """A call's values [B,H,K,E], repeated for query heads that share them."""
    assert call.values is not None
    n_heads = call.query.shape[1] if call.query is not None else call.values.shape[1]
    return call.values.repeat_interleave(n_heads // call.values.shape[1], dim=1)


def _alike(values: list[Tensor]) -> bool:
    """Whether all calls had the same values."""
    first = values[0]
    return all(other.shape == first.shape and torch.equal(other, first) for other in values[1:])


def _allowed(calls: list[taps.Seen], n_keys: int) -> Tensor | None:
    """What each query may see, for the queries whose weights were kept."""
    unlike = any(call.axes.first_key or _end(call) != n_keys for call in calls)
    if not unlike and all(call.allowed is None for call in calls):
        return None
    parts = []
    for call in calls:
        if call.weights is not None:
            whole = torch.ones(1, 1, *call.weights.shape[2:], dtype=torch.bool)
            parts.append(_widened(whole if call.allowed is None else whole & call.allowed, n_keys, call))
    return torch.cat([part.expand(max(len(p) for p in parts), max(p.shape[1] for p in parts), -1, -1)
                      for part in parts], 2) if parts else None  # fmt: skip


def _no_such_site(subject: Subject, sites: str | Sequence[str]) -> NoReturn:
    with taps.watch("*", weights=False) as watched, torch.no_grad():
        subject.run(**subject.inputs)
    name = sites if isinstance(sites, str) else ", ".join(sites)
    raise UnknownName("layer or site", name, [*watched.hidden, *watched.sites])
