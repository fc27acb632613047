"""Attention rollout and attention flow (Abnar and Zuidema 2020, Quantifying Attention Flow in Transformers).

    rollout    Ā_l = ½ (mean over heads of A_l) + ½ I, rows summing to one        R_l = Ā_l R_{l−1}, R_0 = I
    flow       the same Ā as capacities of a graph with a node for each token and layer: the maximum flow from a state
               to each input token

Where we differ: the share of the residual connection (½) is an option. Rollout is computed for every stack of
self-attention, flow for one token, since it solves a separate problem for each input.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.core.errors import UsageError
from regard.explain.chosen import answered, chosen, count, looked_at, numbers, pictured
from regard.explain.traces import Site, Trace
from regard.views.result import Heads, HeadSite, Matrix, Panel, Result, Words

LOOKS_AT = "trace"


def rollout(
    trace: Trace, *, sites: str = "*", row: int = 0, shortcut: float = 0.5, flow: bool = False, token: int | None = None
) -> Result:
    """Attention through the layers down to the input; with --flow also as the maximum flow from one token."""
    if not 0 <= shortcut < 1:
        raise UsageError("the residual's share is out of range", got=shortcut, expected="0 to less than 1")
    stacks: dict[str, list[Site]] = {}
    for site in chosen(trace, sites, own=True):
        stacks.setdefault(site.name.split(".")[0], []).append(site)
    panels: list[Panel] = []
    explorer, data, statements = {}, dict[str, object](), []
    for name, stack in stacks.items():
        steps = [_step(trace.heads(site.name, row), shortcut) for site in stack]
        labels = trace.labels(stack[0].queries, row), trace.labels(stack[0].keys, row)
        reached = rolled(steps)
        for site, matrix in zip(stack, reached, strict=True):
            explorer[site.name] = HeadSite(*labels, {"rollout": matrix[None]})
        title = f"Rollout of {name}, {count(len(stack), 'layer')}"
        whole = Matrix(title, *labels, numbers(reached[-1]))
        panels += pictured(trace, stack[0].keys, f"{title}: where {labels[0][0]} ends", reached[-1][0]) or [whole]
        data[name] = {site.name: matrix.tolist() for site, matrix in zip(stack, reached, strict=True)}
        if flow:
            start = (0 if name == "encoder" else len(labels[0]) - 1) if token is None else token
            if not 0 <= start < len(labels[0]):
                raise UsageError("no such token", got=start, expected=f"0 to {len(labels[0]) - 1}")
            shares = flowing(steps, start)
            what = f"Flow from {labels[0][start]!r} to the input of {name}"
            panels += pictured(trace, stack[0].keys, what, shares) or [
                Words(what, labels[1], shares.tolist(), diverging=False)
            ]
            data[f"{name}.flow"] = {"token": start, "flow": shares.tolist()}
        share, best = reached[-1].mean(0).max(0)
        statements.append(f"{name}: most attention ends on {labels[1][int(best)]!r} ({float(share):.0%} on average).")
    title = f"Attention rollout of {trace.model}: {looked_at(trace, row)}"
    return Result("rollout", title, panels, [*answered(trace, row), *statements], data, Heads(explorer, ["rollout"]))


def rolled(steps: list[Tensor]) -> list[Tensor]:
    """R after each layer [Q,K]."""
    reached, products = torch.eye(steps[0].shape[1], dtype=steps[0].dtype), []
    for step in steps:
        reached = step @ reached
        products.append(reached)
    return products


def flowing(steps: list[Tensor], token: int) -> Tensor:
    """The maximum flow from `token` after the last layer to each input token, as shares of their sum."""
    import networkx  # type: ignore[import-untyped]

    graph, size, top = networkx.DiGraph(), steps[0].shape[1], len(steps)
    for level, step in enumerate(steps):
        for upper, lower in (step > 0).nonzero().tolist():
            graph.add_edge((level + 1, upper), (level, lower), capacity=float(step[upper, lower]))
    largest_flows = [
        networkx.maximum_flow_value(graph, (top, token), (0, place)) if (0, place) in graph else 0.0
        for place in range(size)
    ]
    flows = torch.tensor(largest_flows, dtype=steps[0].dtype)
    return flows / flows.sum().clamp_min(1e-30)


def _step(heads: Tensor, shortcut: float) -> Tensor:
    mean = heads.mean(0)
    mixed = (1 - shortcut) * mean + shortcut * torch.eye(*mean.shape, dtype=mean.dtype)
    return mixed / mixed.sum(-1, keepdim=True).clamp_min(1e-30)
