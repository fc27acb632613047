"""Effective attention (Brunner et al. 2020, On Identifiability in Transformers).

A head adds A·T to the output, with T = V·H: the values V times the head's slice H of the output projection. A splits
into a part in the left null space of T, which has no effect on the output, and the rest:

    A = A∥ + A⊥        A∥·T = 0        A⊥·T = A·T

A⊥ is the effective attention. The null space of a row that sees n keys has dimension n − rank(T) ≥ n − d_head, so short
rows have none and A⊥ = A. Rows of A⊥ may be negative and need not sum to one; the result reports where this happens.
If a mask hides keys, a row's null space is that of the keys that it sees (`nullspace`).

Like the paper's T, ours does not include the output bias. A recurrent decoder has no output projection of its own, so
its T is the values.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from regard.core.errors import UsageError
from regard.explain.chosen import answered, looked, looked_at, numbers, pictured
from regard.explain.nullspace import reaching
from regard.explain.traces import Look, Trace
from regard.views.result import Heads, HeadSite, Matrix, Panel, Result, Table

LOOKS_AT = "trace"
NEEDS = {"value_path": True}


def effective(trace: Trace, *, sites: str = "*", head: int | None = None, row: int = 0) -> Result:
    """A⊥ of every head beside A, the dimension of the null space, and how much they agree."""
    facts, explorer, sides = dict[str, dict[str, Any]](), dict[str, HeadSite](), dict[str, str]()
    for look in looked(trace, sites, row):
        effective_HQK, null_HQ = _effective(look)
        facts[look.name] = _facts(look, effective_HQK, null_HQ)
        explorer[look.name] = HeadSite(look.queries, look.keys, {"raw": look.weights, "effective": effective_HQK})
        sides[look.name] = look.site.keys
    return Result(
        "effective",
        f"Effective attention of {trace.model}: {looked_at(trace, row)}",
        [*_pictures(trace, explorer, facts, sides, head), _table(facts)],
        [*answered(trace, row), *_statements(facts)],
        {"sites": facts, "output": trace.output},
        Heads(explorer, ["raw", "effective"]),
    )


def effective_weights(trace: Trace, site: str, row: int = 0) -> tuple[Tensor, Tensor]:
    """A⊥ of one row of the trace [H,Q,K], and the dimension of each query's null space [H,Q]."""
    looks = trace.looks(site, row)
    if len(looks) != 1:
        raise UsageError(f"{site} has {len(looks)} rows for this input", remedy="Use effective(trace, sites=…).")
    return _effective(looks[0])


def _effective(look: Look) -> tuple[Tensor, Tensor]:
    """The same for one look. Calls with different values each have their own T, and so their own null space."""
    if look.site.path is None:
        raise UsageError(f"T of {look.site.name} was not recorded", remedy="Trace with value_path=True.")
    allowed = look.allowed
    allowed = None if allowed is None or bool(allowed.all()) else allowed[None]
    parts = [
        reaching(look.weights[None, :, queries], path_HKE[None], None if allowed is None else allowed[:, :, queries])
        for queries, path_HKE in value_paths(look)
    ]
    effective_BHQK, null_BHQ = (torch.cat(part, 2) for part in zip(*parts, strict=True))
    return effective_BHQK[0], null_BHQ[0]


def value_paths(look: Look) -> Iterator[tuple[slice, Tensor]]:
    """The queries that share each T, and its path [H,K,E]."""
    path, calls = look.site.path, look.site.calls
    assert path is not None
    n_keys, n_queries = len(look.keys), len(look.queries)
    if calls is None:
        yield slice(0, n_queries), path[look.place, :, :n_keys]
        return
    for call in range(path.shape[2]):
        queries = (calls[:n_queries] == call).nonzero().flatten().tolist()
        if queries:
            yield slice(queries[0], queries[-1] + 1), path[look.place, :, call, :n_keys]


def _facts(look: Look, part: Tensor, null: Tensor) -> dict[str, Any]:
    raw = look.weights
    pairs = [(raw[:, queries] @ path, part[:, queries] @ path) for queries, path in value_paths(look)]
    wanted, got = (torch.cat(both, 1) for both in zip(*pairs, strict=True))
    sums = part.sum(-1)
    return {
        "null_dimension": null.amax(1).tolist(),
        "null_dimension_by_query": null.tolist() if bool((null != null[:, :1]).any()) else None,
        "rank": (raw.shape[2] - null[:, -1]).tolist(),
        "keys": raw.shape[2],
        "correlation": correlation(raw, part).tolist(),
        "share": (part.flatten(1).norm(dim=1) / raw.flatten(1).norm(dim=1)).tolist(),
        "negative_rows": (part < -1e-6).any(-1).float().mean(1).tolist(),
        "unequal_rows": ((sums - raw.sum(-1)).abs() > 1e-4).float().mean(1).tolist(),
        "error": float((got - wanted).abs().amax() / wanted.abs().amax().clamp_min(1e-30)),
    }


def correlation(first: Tensor, second: Tensor) -> Tensor:
    """Pearson's r of two maps [H,Q,K], over entries where either is not zero [H]."""
    correlations = []
    for a, b in zip(first.flatten(1), second.flatten(1), strict=True):
        seen = (a != 0) | (b != 0)
        pair = torch.stack([a[seen], b[seen]]).double()
        centred = pair - pair.mean(1, keepdim=True)
        size = centred.norm(dim=1).prod()
        correlations.append((centred[0] @ centred[1] / size) if size > 0 else torch.tensor(1.0, dtype=torch.double))
    return torch.stack(correlations)


def _pictures(
    trace: Trace,
    explorer: dict[str, HeadSite],
    facts: dict[str, dict[str, Any]],
    sides: dict[str, str],
    head: int | None,
) -> list[Panel]:
    """Pictures of the site where A and A⊥ differ most; one picture if they are equal."""
    name = min(facts, key=lambda site: _mean(facts[site]["correlation"]) if max(facts[site]["null_dimension"]) else 1.0)
    site = explorer[name]
    raw, part = site.kinds["raw"], site.kinds["effective"]
    if head is not None and not 0 <= head < len(raw):
        raise UsageError("no such head", got=head, expected=f"0 to {len(raw) - 1}")
    which = f"head {head}" if head is not None else f"mean of {len(raw)} heads"
    pair = [tensor[head] if head is not None else tensor.mean(0) for tensor in (raw, part)]
    kinds = dict(zip(("raw", "effective"), pair, strict=True))
    if max(facts[name]["null_dimension"]) == 0:
        kinds = {"raw and effective": pair[0]}
    panels: list[Panel] = []
    for kind, tensor in kinds.items():
        title, signed = f"{name}, {which}: {kind}", bool(tensor.min() < -1e-6)
        panels += pictured(trace, sides[name], f"Where {site.rows[0]} looks: {title}", tensor[0], diverging=signed) or [
            Matrix(title, site.rows, site.columns, numbers(tensor), diverging=signed)
        ]
    return panels


def _table(facts: dict[str, dict[str, Any]]) -> Table:
    columns = ["site", "keys", "rank of T", "null space", "r", "kept of |A|", "rows < 0", "sum ≠ A's"]
    rows: list[list[str | float | int | None]] = []
    for name, site_facts in facts.items():
        ranks, nulls = site_facts["rank"], site_facts["null_dimension"]
        means = [_mean(site_facts[key]) for key in ("correlation", "share", "negative_rows", "unequal_rows")]
        rows.append([name, site_facts["keys"], _span(ranks), _span(nulls), *means])
    return Table(
        "Raw against effective, means over heads",
        columns,
        rows,
        "r: Pearson's correlation of A and A⊥; rows < 0: share of rows with an entry below zero",
    )


def _span(values: list[int]) -> str:
    return str(values[0]) if min(values) == max(values) else f"{min(values)}–{max(values)}"


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def _statements(facts: dict[str, dict[str, Any]]) -> list[str]:
    heads = sum(len(site_facts["rank"]) for site_facts in facts.values())
    free = sum(1 for site_facts in facts.values() for null in site_facts["null_dimension"] if null == 0)
    negative = sum(1 for site_facts in facts.values() for share in site_facts["negative_rows"] if share > 0)
    unequal = sum(1 for site_facts in facts.values() for share in site_facts["unequal_rows"] if share > 0)
    exact = f"A⊥·T equals A·T to {max(site_facts['error'] for site_facts in facts.values()):.1e} of its largest entry."
    if free == heads:
        return ["No head has a null space at this length: effective attention is the raw attention.", exact]
    statements = [f"{heads - free} of {heads} heads have a null space, of up to "
            f"{max(max(site_facts['null_dimension']) for site_facts in facts.values())} dimensions."]  # fmt: skip
    if negative or unequal:
        statements.append(
            f"Rows of A⊥ are negative somewhere in {negative} heads and do not keep their sum in {unequal}: "
            "it is not a distribution."
        )
    return [*statements, exact]
