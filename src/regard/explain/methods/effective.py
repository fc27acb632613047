"""Effective attention (Brunner et al. 2020, On Identifiability in Transformers).

What a head adds to the output is A·T with T = V·H: the values V through the head's slice H of the output projection.
A splits into a part in the left null space of T, which cannot be seen in the output, and the rest:

    A = A∥ + A⊥        A∥·T = 0        A⊥·T = A·T

A⊥ is the effective attention. The null space of a row that sees n keys has dimension n − rank(T) ≥ n − d_head, so short
rows have none and A⊥ = A. Rows of A⊥ may be negative and need not sum to one: it is said where they do not.
Where a mask hides keys, a row's null space is that of the keys that it sees (`_nullspace`).

Where we differ: the paper's T includes no output bias, nor does ours; a recurrent decoder has no output projection of
its own, so there T is the values.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.core.errors import UsageError
from regard.explain.chosen import answered, chosen, looked_at, numbers, pictured
from regard.explain.nullspace import reaching
from regard.explain.traces import Site, Trace
from regard.views.result import Heads, HeadSite, Matrix, Panel, Result, Table

LOOKS_AT = "trace"
NEEDS = {"value_path": True}


def effective(trace: Trace, *, sites: str = "*", head: int | None = None, row: int = 0) -> Result:
    """A⊥ of every head beside A, the null space's dimension, and how far both agree."""
    matching_sites, facts, explorer = chosen(trace, sites), dict[str, dict[str, Any]](), dict[str, HeadSite]()
    for site in matching_sites:
        raw_HQK = trace.heads(site.name, row)
        effective_HQK, null_HQ = effective_weights(trace, site.name, row)
        facts[site.name] = _facts(trace, site, raw_HQK, effective_HQK, null_HQ, row)
        labels = trace.labels(site.queries, row), trace.labels(site.keys, row)
        explorer[site.name] = HeadSite(*labels, {"raw": raw_HQK, "effective": effective_HQK})
    return Result(
        "effective",
        f"Effective attention of {trace.model}: {looked_at(trace, row)}",
        [*_pictures(trace, explorer, facts, head), _table(facts)],
        [*answered(trace, row), *_statements(facts)],
        {"sites": facts, "output": trace.output},
        Heads(explorer, ["raw", "effective"]),
    )


def effective_weights(trace: Trace, site: str, row: int = 0) -> tuple[Tensor, Tensor]:
    """A⊥ of one row of the trace [H,Q,K], and each query's null space's dimension [H,Q]."""
    recorded_site = trace[site]
    if recorded_site.path is None:
        raise UsageError(f"T of {site} was not recorded", remedy="Trace with value_path=True.")
    weights_HQK = trace.heads(site, row)
    n_queries, n_keys = weights_HQK.shape[1:]
    allowed = None
    if recorded_site.allowed is not None:
        wide = recorded_site.allowed.expand(trace.rows, -1, -1, -1)[row : row + 1, :, :n_queries, :n_keys]
        allowed = None if bool(wide.all()) else wide
    effective_BHQK, null_BHQ = reaching(weights_HQK[None], recorded_site.path[row : row + 1, :, :n_keys], allowed)
    return effective_BHQK[0], null_BHQ[0]


def _facts(trace: Trace, site: Site, raw: Tensor, part: Tensor, null: Tensor, row: int) -> dict[str, Any]:
    assert site.path is not None
    path = site.path[row, :, : raw.shape[2]]
    wanted, got = raw @ path, part @ path
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
    """Pearson's r of two maps [H,Q,K] over the entries where either is not zero [H]."""
    correlations = []
    for a, b in zip(first.flatten(1), second.flatten(1), strict=True):
        seen = (a != 0) | (b != 0)
        pair = torch.stack([a[seen], b[seen]]).double()
        centred = pair - pair.mean(1, keepdim=True)
        size = centred.norm(dim=1).prod()
        correlations.append((centred[0] @ centred[1] / size) if size > 0 else torch.tensor(1.0, dtype=torch.double))
    return torch.stack(correlations)


def _pictures(
    trace: Trace, explorer: dict[str, HeadSite], facts: dict[str, dict[str, Any]], head: int | None
) -> list[Panel]:
    """Of the site where both differ most; one picture where they are the same."""
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
        panels += pictured(trace, f"Where {site.rows[0]} looks: {title}", tensor[0], diverging=signed) or [
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
            "it is no distribution."
        )
    return [*statements, exact]
