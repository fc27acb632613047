"""What each decision looked at: the earlier inputs with the largest attention weights.

    weight_qs = mean over the sites and heads of A_qs        for s ≤ q

The last decision is shown beside its earlier inputs, site by site; the table lists, for every decision, the inputs that
it looked at most. `own` is the weight on the decision's own step. A model that decides by convolutions as well (SNAIL)
may also use inputs that it does not attend to.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.core.errors import UsageError
from regard.explain.chosen import answered, chosen, looked_at, numbers
from regard.explain.traces import Trace
from regard.views.result import Heads, HeadSite, Matrix, Panel, Result, Table

LOOKS_AT = "trace"
_MOST_ROWS = 60


def decisions(trace: Trace, *, sites: str = "*", row: int = 0, top: int = 3) -> Result:
    """Which earlier inputs each decision looked at: those with the largest weights, and the last decision by site."""
    if top < 1:
        raise UsageError("--top is out of range", got=top, expected="1 or more")
    kept = [site for site in chosen(trace, sites, own=True) if site.queries == site.keys and site.rows is None]
    if not kept:
        raise UsageError("decisions needs self-attention over one sequence", remedy="Use --method maps.")
    side = kept[0].queries
    looks = {site.name: trace.heads(site.name, row).float().mean(0) for site in kept if site.queries == side}
    labels, mean = trace.labels(side, row), torch.stack(list(looks.values())).mean(0)
    last = torch.stack([weights[-1] for weights in looks.values()])
    order = _ranked(mean[-1], len(labels) - 1, top)
    seen = ", ".join(f"{labels[place]!r} ({float(mean[-1, place]):.0%})" for place in order)
    statement = f"The last decision looked at {seen or 'nothing before it'}; {float(mean[-1, -1]):.0%} at itself."
    panels: list[Panel] = [
        Matrix("What the last decision looked at, by site", list(looks), labels, numbers(last)),
        _table(mean, labels, top),
    ]
    title = f"Decisions of {trace.model}: {looked_at(trace, row)}"
    shown = Heads({name: HeadSite(labels, labels, {"raw": weights[None]}) for name, weights in looks.items()}, ["raw"])
    data = {"weights": mean.tolist(), "sites": {name: weights.tolist() for name, weights in looks.items()}}
    return Result("decisions", title, panels, [*answered(trace, row), statement], data, shown)


def _ranked(weights: Tensor, before: int, top: int) -> list[int]:
    """Up to `top` positions before `before`, by falling weight; positions with weight 0 are left out."""
    order = torch.argsort(weights[:before], descending=True, stable=True)[:top].tolist()
    return [place for place in order if float(weights[place]) > 0]


def _table(mean: Tensor, labels: list[str], top: int) -> Table:
    """A row for each decision; at most the last `_MOST_ROWS`."""
    rows: list[list[str | float | int | None]] = []
    for place in range(max(0, len(labels) - _MOST_ROWS), len(labels)):
        order = _ranked(mean[place], place, top)
        looked = ", ".join(f"{labels[other]} {float(mean[place, other]):.2f}" for other in order)
        rows.append([place + 1, labels[place], looked or "–", float(mean[place, place])])
    cut = f"; the last {_MOST_ROWS} of {len(labels)}" if len(labels) > _MOST_ROWS else ""
    return Table("Every decision", ["step", "input", "looked at", "own"], rows, f"means over sites and heads{cut}")
