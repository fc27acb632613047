"""Attention maps: where every head looks, and how heads differ.

entropy     −Σ_k a log a of a row, in nats, mean over queries; also as a share of the maximum for the row's keys
distance    Σ_k a |q − k|, mean over queries, for self-attention
largest     the largest weight of a row, mean over queries
own         for self-attention, the weight of a token on itself, mean over the queries that see other tokens too; beside
            it what equal weights would give, 1 / (number of keys that a query sees)
agreement   the mean cosine of a head's map with the other heads' of its site
"""

from __future__ import annotations

import math
import re
from typing import Any

import torch
from torch import Tensor

from regard.core.errors import UsageError
from regard.explain.chosen import answered, count, looked, looked_at, looks_at_itself, numbers, pictured
from regard.explain.traces import Look, Trace
from regard.views.result import Heads, HeadSite, Matrix, Panel, Result, Table

LOOKS_AT = "trace"
_MOST_PICTURES = 12


def maps(trace: Trace, *, sites: str = "*", head: int | None = None, row: int = 0, alone: bool = False) -> Result:
    """Weights of all heads, with entropy, distance and agreement; `sites` is a name, a layer or a pattern.

    `alone`: only the map, for a figure.
    """
    looks = looked(trace, sites, row)
    facts = {look.name: _facts(trace, look) for look in looks}
    return Result(
        "maps",
        f"Attention of {trace.model}: {looked_at(trace, row)}",
        [*_pictures(trace, looks, head), *([] if alone else _tables(facts))],
        [*answered(trace, row), *_statements(facts)],
        {"sites": facts, "output": trace.output},
        None
        if alone
        else Heads({look.name: HeadSite(look.queries, look.keys, {"raw": look.weights}) for look in looks}, ["raw"]),
    )


def _pictures(trace: Trace, looks: list[Look], head: int | None) -> list[Panel]:
    """One picture for each pair of sides: the mean over the heads of its sites, or one head."""
    groups: dict[tuple[str, str, int | None], list[Look]] = {}
    for look in looks:
        several = None if look.site.rows is None else look.place  # several rows of one input get separate pictures
        groups.setdefault((look.site.queries, look.site.keys, several), []).append(look)
    panels: list[Panel] = []
    for alike in groups.values():
        first, last = alike[0], alike[-1]
        heads = torch.cat([look.weights for look in alike])
        if head is not None and len(alike) > 1:
            raise UsageError(
                "there are several sites, and a head belongs to one", remedy=f"Name one: --sites {first.site.name}."
            )
        if head is not None and not 0 <= head < len(heads):
            raise UsageError("no such head", got=head, expected=f"0 to {len(heads) - 1}")
        if first.site.keys in trace.grids:
            panels += _over_image(trace, last, head)
            continue
        name = first.name if len(alike) == 1 else re.sub(r"\d+", "*", first.name)
        which = f"head {head}" if head is not None else "" if len(heads) == 1 else f"mean of {len(heads)} heads"
        picture = heads[head] if head is not None else heads.mean(0)
        panels.append(Matrix(", ".join(filter(None, [name, which])), first.queries, first.keys, numbers(picture)))
    return panels


def _over_image(trace: Trace, look: Look, head: int | None) -> list[Panel]:
    """Where an image's first token, or each word about the image, looks in it; the heads hold every patch's map."""
    which = f"head {head}" if head is not None else f"mean of {len(look.weights)} heads"
    seen_QK = look.weights[head] if head is not None else look.weights.mean(0)
    asking = look.queries[:1] if looks_at_itself(look.site) else look.queries[:_MOST_PICTURES]
    return [
        panel
        for query, seen_K in zip(asking, seen_QK, strict=False)
        for panel in pictured(trace, look.site.keys, f"Where {query} looks: {look.name}, {which}", seen_K)
    ]


def _facts(trace: Trace, look: Look) -> dict[str, Any]:
    heads = look.weights
    n_heads = len(heads)
    entropy_HQ = torch.special.entr(heads).sum(-1)
    seen_Q = _seen(look)
    most = float(seen_Q.clamp_min(1).log().mean())
    facts: dict[str, Any] = {
        "heads": n_heads,
        "entropy": entropy_HQ.mean(1).tolist(),
        "entropy_share": (entropy_HQ.mean(1) / most).tolist() if most > 0 else [math.nan] * n_heads,
        "largest": heads.amax(-1).mean(1).tolist(),
    }
    if n_heads > 1:
        facts["agreement"] = _agreement(heads).tolist()
    if looks_at_itself(look.site):
        facts["distance"] = _distance(heads, trace.grids.get(look.site.keys)).tolist()
        free_Q = seen_Q > 1  # the first token of a causal model has no choice
        facts["own"] = heads.diagonal(dim1=1, dim2=2)[:, free_Q].mean(1).tolist()
        facts["own_if_equal"] = float(seen_Q[free_Q].reciprocal().mean())
    return facts


def _seen(look: Look) -> Tensor:
    """How many keys each query may see [Q]."""
    if look.allowed is None:
        return torch.full((look.weights.shape[1],), float(look.weights.shape[2]))
    return look.allowed[0].sum(-1).float()


def _distance(heads: Tensor, grid: tuple[int, int] | None) -> Tensor:
    """How far each head looks, mean over queries [H]; the straight distance between patches of an image."""
    n_queries, n_keys = heads.shape[1:]
    if grid is None:
        gap_QK = (torch.arange(n_queries).unsqueeze(1) - torch.arange(n_keys)).abs().float()
        return (heads * gap_QK).sum(-1).mean(1)
    places = torch.cartesian_prod(torch.arange(grid[0]), torch.arange(grid[1])).float()
    patches = heads[:, -len(places) :, -len(places) :]
    return ((patches * torch.cdist(places, places)).sum(-1) / patches.sum(-1).clamp_min(1e-30)).mean(1)


def _agreement(heads: Tensor) -> Tensor:
    flat = torch.nn.functional.normalize(heads.flatten(1), dim=1)
    alike = flat @ flat.T
    return (alike.sum(1) - alike.diagonal()) / max(len(heads) - 1, 1)


def _tables(facts: dict[str, dict[str, Any]]) -> list[Panel]:
    panels: list[Panel] = []
    columns = ["site", "heads", "entropy", "share of max. entropy", "largest weight", "distance", "agreement"]
    rows: list[list[str | float | int | None]] = []
    for name, site_facts in facts.items():
        means = [_mean(site_facts.get(key)) for key in ("entropy", "entropy_share", "largest", "distance", "agreement")]
        rows.append([name, site_facts["heads"], *means])
    panels.append(
        Table("Sites, means over heads", columns, rows, "entropy in nats; distance in tokens (of images: patches)")
    )
    if own := {name: site_facts for name, site_facts in facts.items() if "own" in site_facts}:
        panels.append(_own_table(own))
    if max(site_facts["heads"] for site_facts in facts.values()) > 1:
        panels.append(_by_head("Entropy of each head", facts, "entropy"))
        if any("own" in site_facts for site_facts in facts.values()):
            panels.append(_by_head("Weight on the own token, of each head", facts, "own"))
    return panels


def _own_table(facts: dict[str, dict[str, Any]]) -> Table:
    """A row for each site of self-attention."""
    rows: list[list[str | float | int | None]] = [
        [name, _mean(site["own"]), max(site["own"]), site["own_if_equal"]] for name, site in facts.items()
    ]
    columns = ["site", "mean over heads", "the head with most", "if all were equal"]
    return Table("Weight on the own token", columns, rows, "of tokens that see others too")


def _by_head(name: str, facts: dict[str, dict[str, Any]], key: str) -> Matrix:
    """A row for each site that has this number, a column for each head."""
    rows = {site: site_facts[key] for site, site_facts in facts.items() if key in site_facts}
    most = max(map(len, rows.values()))
    values = [[*row, *[math.nan] * (most - len(row))] for row in rows.values()]
    return Matrix(name, list(rows), [str(number) for number in range(most)], values)


def _mean(values: list[float] | None) -> float | None:
    return None if values is None else sum(values) / len(values)


def _statements(facts: dict[str, dict[str, Any]]) -> list[str]:
    heads = [
        (name, number, value)
        for name, site_facts in facts.items()
        for number, value in enumerate(site_facts["entropy"])
    ]
    sharp, flat = min(heads, key=lambda head: head[2]), max(heads, key=lambda head: head[2])
    if len(heads) == 1:
        return [f"One head, {sharp[0]}; the mean entropy of its rows is {sharp[2]:.2f} nats.", *_own_statements(facts)]
    return [
        f"{len(heads)} heads in {count(len(facts), 'site')}.",
        f"The sharpest is {sharp[0]} head {sharp[1]} (entropy {sharp[2]:.2f} nats), "
        f"the flattest {flat[0]} head {flat[1]} ({flat[2]:.2f}).",
        *_own_statements(facts),
    ]


def _own_statements(facts: dict[str, dict[str, Any]]) -> list[str]:
    """How much of the weight of self-attention stays on the own token; nothing if no query has a choice."""
    own = {
        name: site_facts["own"]
        for name, site_facts in facts.items()
        if math.isfinite(site_facts.get("own_if_equal", math.nan))
    }
    if not own:
        return []
    heads = [(weight, name, number) for name, weights in own.items() for number, weight in enumerate(weights)]
    equal = sum(facts[name]["own_if_equal"] * len(weights) for name, weights in own.items()) / len(heads)
    weight, name, number = max(heads)
    most = f", most in {name} head {number} ({weight:.2f})" if len(heads) > 1 else ""
    mean = sum(head[0] for head in heads) / len(heads)
    return [f"Self-attention puts {mean:.2f} of its weight on the own token ({equal:.2f} if all were equal){most}."]
