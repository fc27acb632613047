"""One run, watched: what was asked for is kept in a `Trace`.

Only the sites that were asked for are worked out beside the fused kernel; the model's own result is not touched. T, the
values through a head's slice W of the output projection (K × D), is kept in two thin parts: with Wᵀ = Q R,

    T = V W = (V Rᵀ) Qᵀ = path · frame        path [K,E], frame [E,D] with orthonormal rows

so `path` has the null space and the singular values of T at a fraction of its size. The gradient of the answer by a
weight A_qk is ∂y/∂context_q · v_k: one backward pass to the contexts gives all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

import torch
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
    """Run the subject once. `sites` are names of sites or layers, or shell patterns; `hidden` states are of all layers.

    `value_path` keeps the parts of T; `gradients` those of the answer by the weights.
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
        {name: _site(subject, seen.calls(name), slopes.get(name)) for name in seen.sites},
        {name: torch.cat(parts, 1) for name, parts in states.hidden.items()} if hidden else {},
        dict(subject.ids),
        dict(subject.output) | ({} if scores is None else {"scores": scores.tolist()}),
        subject.grid,
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


def _site(subject: Subject, calls: list[taps.Seen], slope: Tensor | None) -> Site:
    """One site; a recurrent decoder calls its aligner once a step, and the rows are put together in order."""
    first, weights = calls[0], [call.weights for call in calls if call.weights is not None]
    queries, keys = subject.sides_of(first.site)
    path = frame = gradients = None
    if first.values is not None:
        n_heads = first.query.shape[1] if first.query is not None else first.values.shape[1]
        values = first.values.repeat_interleave(n_heads // first.values.shape[1], dim=1)
        if first.slices is not None:
            basis, triangle = torch.linalg.qr(first.slices.mT)
            path, frame = values @ triangle.mT, basis.mT
        else:
            path = values
        gradients = None if slope is None else (slope @ values.mT).detach()
    return Site(
        first.site,
        queries,
        keys,
        torch.cat(weights, 2) if len(weights) > 1 else next(iter(weights), None),
        _allowed(calls),
        path,
        frame,
        gradients,
    )


def _allowed(calls: list[taps.Seen]) -> Tensor | None:
    """What each query might see, for those whose weights were kept."""
    if all(call.allowed is None for call in calls):
        return None
    parts = []
    for call in calls:
        if call.weights is not None:
            whole = torch.ones(1, 1, *call.weights.shape[2:], dtype=torch.bool)
            parts.append(whole if call.allowed is None else whole & call.allowed)
    return torch.cat(parts, 2) if parts else None


def _no_such_site(subject: Subject, sites: str | Sequence[str]) -> NoReturn:
    with taps.watch("*", weights=False) as watched, torch.no_grad():
        subject.run(**subject.inputs)
    name = sites if isinstance(sites, str) else ", ".join(sites)
    raise UnknownName("layer or site", name, [*watched.hidden, *watched.sites])
