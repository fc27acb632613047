"""A memory over time (the pictures of Graves et al. 2014): where each head wrote and read, and what stood there.

    weights     w_t(i), a row for each step, a column for each row of the memory
    sizes       ‖M_t(i)‖, what a row held when the step read it
    contents    M_t(i), the numbers of each row at one step (by default the last)

A row of the memory is in use if some head gives it a weight of at least `least` at some step. The rows in use are
shown, and the rows between them. Shifts wrap around, so the rows form a ring; the picture begins after the longest gap
between rows in use, so that row 127 may stand beside row 0.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.core.articles import with_article
from regard.core.errors import UsageError
from regard.explain.chosen import answered, count, looked_at, numbers
from regard.explain.traces import Look, Trace
from regard.views.result import Heads, HeadSite, Matrix, Panel, Result

LOOKS_AT = "trace"
NEEDS = {"value_path": True}


def memory(trace: Trace, *, row: int = 0, step: int | None = None, least: float = 0.05) -> Result:
    """Where a machine with a memory wrote and read at each step, and what the memory held."""
    if not 0 < least < 1:
        raise UsageError("least is out of range", got=least, expected="more than 0, less than 1")
    looks = [look for name, site in trace.sites.items() if site.keys == "memory" for look in trace.looks(name, row)]
    if not looks:
        raise UsageError(
            "this model has no memory to draw", got=with_article(trace.model), expected="a machine such as ntm"
        )
    steps, contents = looks[0].queries, _contents(looks[-1])
    if step is not None and not -len(steps) <= step < len(steps):
        raise UsageError("no such step", got=step, expected=f"{-len(steps)} to {len(steps) - 1}")
    held, rows = contents[-1 if step is None else step], _used([look.weights for look in looks], least)
    keys = [looks[0].keys[place] for place in rows]
    panels: list[Panel] = [panel for look in looks for panel in _weights(look, rows)]
    panels.append(Matrix("Size of each row", steps, keys, numbers(contents[:, rows].norm(dim=-1))))
    when = "at the end" if step is None else f"at step {step % len(steps)} ({steps[step]})"
    columns = [str(place) for place in range(held.shape[1])]
    panels.append(Matrix(f"Contents {when}", keys, columns, numbers(held[rows]), diverging=True))
    facts = {look.name: _facts(look) for look in looks}
    return Result(
        "memory",
        f"Memory of {trace.model}: {looked_at(trace, row)}",
        panels,
        [*answered(trace, row), *_statements(facts, keys, looks[0].keys)],
        {"sites": facts, "rows": keys, "contents": held[rows].tolist(), "output": trace.output},
        Heads({look.name: HeadSite(steps, keys, {"raw": look.weights[..., rows]}) for look in looks}, ["raw"]),
    )


def _contents(look: Look) -> Tensor:
    """The memory at each step [Q,K,E]."""
    path, calls, n_queries = look.site.path, look.site.calls, len(look.queries)
    if path is None:
        raise UsageError("the memory was not recorded", remedy="Trace with value_path=True.")
    rows = path[look.place, 0]  # all heads see the same rows
    return rows.expand(n_queries, -1, -1) if calls is None else rows[calls[:n_queries]]


def _used(weights: list[Tensor], least: float) -> list[int]:
    """The shortest stretch of the ring that contains every row with a weight of at least `least`."""
    most = torch.cat([each.amax(1) for each in weights]).amax(0)
    used = (most >= least).nonzero().flatten().tolist() or [int(most.argmax())]
    size = len(most)
    gaps = [(after - before - 1) % size for before, after in zip(used[-1:] + used[:-1], used, strict=True)]
    first = gaps.index(max(gaps)) if len(used) > 1 else 0
    begin, end = used[first], used[first - 1]
    return [(begin + step) % size for step in range((end - begin) % size + 1)]


def _weights(look: Look, rows: list[int]) -> list[Panel]:
    several, keys = len(look.weights) > 1, [look.keys[place] for place in rows]
    return [
        Matrix(f"{look.name}{f', head {number}' if several else ''}", look.queries, keys, numbers(head))
        for number, head in enumerate(look.weights[..., rows])
    ]


def _facts(look: Look) -> dict[str, Any]:
    places = look.weights.argmax(-1)
    moves = (places[:, 1:] - places[:, :-1]) % len(look.keys)
    return {
        "rows": places.tolist(),
        "largest": look.weights.amax(-1).mean(1).tolist(),
        "moves": [_shares(head.tolist(), len(look.keys)) for head in moves],
    }


def _shares(moves: list[int], size: int) -> dict[str, float]:
    """How often a head stayed, went one row on or back, or jumped."""
    kinds = [{0: "stay", 1: "one on", size - 1: "one back"}.get(move, "jump") for move in moves]
    return {kind: kinds.count(kind) / len(kinds) for kind in ("stay", "one on", "one back", "jump") if kind in kinds}


def _statements(facts: dict[str, dict[str, Any]], shown: list[str], every: list[str]) -> list[str]:
    lines = [f"{count(len(shown), 'row')} of {len(every)} are shown: {shown[0]} to {shown[-1]}."]
    for name, site in facts.items():
        for head, (largest, moves) in enumerate(zip(site["largest"], site["moves"], strict=True)):
            which = f"{name} head {head}" if len(site["largest"]) > 1 else name
            went = ", ".join(f"{kind} {share:.0%}" for kind, share in moves.items())
            lines.append(f"{which}: its largest weight is {largest:.2f} on average. Moves: {went or 'none'}.")
    return lines
