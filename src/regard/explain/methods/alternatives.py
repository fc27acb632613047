"""Other attention weights that give the same output (Brunner et al. 2020, section 3: attention is not identifiable).

A head adds A·T to the output. Where a row a of A sees more keys than T has rank, there are other distributions with the
same effect:

    a′ = a + λ d        d · [T, 1] = 0        a′ ≥ 0

d lies in the left null space of T with a column of ones beside it, so a′·T = a·T and a′ sums to 1 as a does. λ is the
largest step at which no weight is negative. Of the directions ±P e_j (P projects onto that null space, e_j is one key),
the one that moves most weight is taken. Every point between a and a′ is a valid distribution too, so there are
infinitely many.

Where we differ: the paper shows that such weights exist; here they are computed, in double precision.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.core.errors import UsageError
from regard.explain.chosen import answered, looked, looked_at, numbers
from regard.explain.methods.effective import value_paths
from regard.explain.nullspace import basis
from regard.explain.traces import Look, Trace
from regard.views.result import Heads, HeadSite, Matrix, Panel, Result, Table

LOOKS_AT = "trace"
NEEDS = {"value_path": True}


def alternatives(trace: Trace, *, sites: str = "*", head: int | None = None, row: int = 0) -> Result:
    """A′ of every head beside A: how much weight can move without changing the output."""
    facts, explorer = dict[str, dict[str, Any]](), dict[str, HeadSite]()
    for look in looked(trace, sites, row):
        other_HQK = other_weights(look)
        facts[look.name] = _facts(look, other_HQK)
        kinds = {"raw": look.weights, "alternative": other_HQK}
        explorer[look.name] = HeadSite(look.queries, look.keys, kinds)
    return Result(
        "alternatives",
        f"Other attention with the same output, {trace.model}: {looked_at(trace, row)}",
        [*_pictures(explorer, facts, head), _table(facts)],
        [*answered(trace, row), *_statements(facts)],
        {"sites": facts, "output": trace.output},
        Heads(explorer, ["raw", "alternative"]),
    )


def other_weights(look: Look) -> Tensor:
    """A′ [H,Q,K] in double precision; equal to A in rows that allow nothing else."""
    if look.site.path is None:
        raise UsageError(f"T of {look.site.name} was not recorded", remedy="Trace with value_path=True.")
    other_HQK = look.weights.double().clone()
    seen_HQK = (
        torch.ones_like(look.weights, dtype=torch.bool)
        if look.allowed is None
        else look.allowed.expand(look.weights.shape)
    )
    for queries, path_HKE in value_paths(look):
        for head, path_KE in enumerate(path_HKE.double()):
            rows_QK, keys_QK = other_HQK[head, queries], seen_HQK[head, queries]
            sets, which = keys_QK.unique(dim=0, return_inverse=True)
            for number, keys in enumerate(sets):
                asked = (which == number).nonzero().flatten()
                rows_QK[asked[:, None], keys.nonzero()[:, 0]] = moved(rows_QK[asked][:, keys], path_KE[keys])
    return other_HQK


def moved(weights_QK: Tensor, path_KE: Tensor) -> Tensor:
    """For rows that see the same keys: the valid distributions farthest along the directions ±P e_j."""
    n_keys = path_KE.shape[0]
    u, rank = basis(torch.cat([path_KE, torch.ones(n_keys, 1, dtype=path_KE.dtype)], 1)[None])
    if n_keys - int(rank[0]) < 1:
        return weights_QK
    projector = torch.eye(n_keys, dtype=path_KE.dtype) - u[0] @ u[0].T
    directions_CK = torch.cat([projector, -projector])
    directions_CK = directions_CK[directions_CK.norm(dim=1) > 1e-6]
    results = []
    for weights_K in weights_QK:
        steps_C = torch.where(directions_CK < -1e-12, weights_K / -directions_CK, torch.inf).amin(1)
        best = int((steps_C * directions_CK.abs().sum(1)).argmax())
        results.append((weights_K + steps_C[best] * directions_CK[best]).clamp_min(0))
    return torch.stack(results)


def _facts(look: Look, other_HQK: Tensor) -> dict[str, Any]:
    raw_HQK = look.weights.double()
    errors = []
    for queries, path_HKE in value_paths(look):
        before, change = (part[:, queries] @ path_HKE.double() for part in (raw_HQK, other_HQK - raw_HQK))
        errors.append(float(change.abs().amax() / before.abs().amax().clamp_min(1e-30)))
    moved_HQ = (raw_HQK - other_HQK).abs().sum(-1) / 2
    return {
        "moved": moved_HQ.mean(1).tolist(),
        "most_moved": moved_HQ.amax(1).tolist(),
        "fixed_rows": (moved_HQ < 1e-9).double().mean(1).tolist(),
        "sum_error": float((other_HQK.sum(-1) - raw_HQK.sum(-1)).abs().amax()),
        "least": float(other_HQK.amin()),
        "error": max(errors),
    }


def _pictures(explorer: dict[str, HeadSite], facts: dict[str, dict[str, Any]], head: int | None) -> list[Panel]:
    """A and A′ of the head in which most weight can move."""
    name = max(facts, key=lambda site: max(facts[site]["moved"]))
    site, shares = explorer[name], facts[name]["moved"]
    if head is not None and not 0 <= head < len(shares):
        raise UsageError("no such head", got=head, expected=f"0 to {len(shares) - 1}")
    chosen = max(range(len(shares)), key=shares.__getitem__) if head is None else head
    return [
        Matrix(f"{name}, head {chosen}: {kind}", site.rows, site.columns, numbers(tensor[chosen]))
        for kind, tensor in site.kinds.items()
    ]


def _table(facts: dict[str, dict[str, Any]]) -> Table:
    rows: list[list[str | float | int | None]] = [
        [name, _mean(fact["moved"]), max(fact["most_moved"]), _mean(fact["fixed_rows"]), fact["error"]]
        for name, fact in facts.items()
    ]
    columns = ["site", "weight moved", "most in a row", "rows that are fixed", "change of A·T"]
    note = "weight moved: half of Σ|A − A′|, mean over rows and heads; 1 would move all of it"
    return Table("How far A′ is from A", columns, rows, note)


def _statements(facts: dict[str, dict[str, Any]]) -> list[str]:
    errors = max(fact["error"] for fact in facts.values())
    exact = f"A′·T equals A·T to {errors:.1e} of its largest entry; no weight is negative and rows sum as before."
    free = [name for name, fact in facts.items() if max(fact["most_moved"]) > 1e-9]
    if not free:
        return ["No row sees more keys than T has rank: these weights are the only ones with this output."]
    best = max(free, key=lambda name: max(facts[name]["most_moved"]))
    return [
        f"{len(free)} of {len(facts)} sites have other weights with the same output, and so infinitely many.",
        f"In {best} a row can move {max(facts[best]['most_moved']):.0%} of its weight.",
        exact,
    ]


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
