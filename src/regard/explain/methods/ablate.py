"""Head ablation: switch off heads one at a time and see which of them the answer needs (Michel et al. 2019).

A head that is off contributes nothing: its context is set to zero before the heads are joined. All heads of a site are
tried in one run, on copies of the row. The effect is the change of the answer's score (a log-probability, so minus the
change of the loss). For a model without an answer it is how far the last states move.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.core import taps
from regard.core.errors import UsageError
from regard.explain.chosen import answered, chosen, looked_at, scored
from regard.explain.methods.attribute import labels_of
from regard.explain.subject import Subject
from regard.explain.traces import Trace
from regard.views.result import Matrix, Panel, Result, Table

LOOKS_AT = "trace"


def ablate(trace: Trace, *, sites: str = "*", row: int = 0, most: int = 10) -> Result:
    """Switch off each head in turn: the change of the answer's score (or of the last states)."""
    subject, matching_sites, title = (
        trace.live(),
        chosen(trace, sites),
        f"Heads off in {trace.model}: {looked_at(trace, row)}",
    )
    if most < 1:
        raise UsageError("most must be positive", got=most, expected="1 or more")
    trace.check_row(row)
    last = trace.layers()[-1:]
    length = len(labels_of(trace, last[0], row)) if last else None
    effects = {
        site.name: effect(subject, site.name, _heads(trace, site.name), row, last, length) for site in matching_sites
    }
    width = max(len(values) for values in effects.values())
    grid = [[*values.tolist(), *[float("nan")] * (width - len(values))] for values in effects.values()]
    ranked = sorted(
        ((float(value), name, head) for name, values in effects.items() for head, value in enumerate(values)),
        key=lambda entry: -abs(entry[0]),
    )
    what = scored(trace) if subject.score is not None else "position of the last states (relative)"
    panels: list[Panel] = [
        Matrix(f"Change of {what}", list(effects), [str(head) for head in range(width)], grid, diverging=True),
        Table(
            "Heads that matter most",
            ["site", "head", "change"],
            [[name, head, value] for value, name, head in ranked[:most]],
        ),
    ]
    value, name, head = ranked[0]
    change = f"without it the {what} changes by {value:+.4f}".replace("-", "−")
    statement = f"Of {len(ranked)} heads {name} head {head} matters most: {change}."
    if len(ranked) == 1:
        statement = f"There is one head, {name}: {change}."
    data = {"effects": {name: values.tolist() for name, values in effects.items()}, "of": what, "output": trace.output}
    return Result("ablate", title, panels, [*answered(trace, row), statement], data)


@torch.no_grad()
def effect(
    subject: Subject,
    site: str,
    n_heads: int,
    row: int = 0,
    layers: list[str] | None = None,
    length: int | None = None,
) -> Tensor:
    """The change when each head of a site is off [H]: score without it − score with all.

    Without a score, it is the change of the first `length` states of a layer, which leaves padding out."""
    copies = subject.repeated(n_heads + 1, row)  # the last copy keeps all its heads
    keep = torch.ones(n_heads + 1, n_heads, 1, 1)
    keep[torch.arange(n_heads), torch.arange(n_heads)] = 0

    def switch(_: str, context: Tensor) -> Tensor:
        rows = called.seen[-1].axes.rows  # if an input has several rows, their heads are switched off together
        return context * (keep if rows is None else keep[rows]).to(context.dtype)

    with taps.watch(site, weights=False, hidden=False) as called, taps.alter({site: switch}):
        if subject.score is not None:
            scores = copies.scores().double()
            return scores[:-1] - scores[-1]
        with taps.watch(layers or [], weights=False) as record:
            copies.run(**copies.inputs)
    last = next(iter(record.hidden.values()))[-1][:, :length].double().flatten(1)
    return (last[:-1] - last[-1]).norm(dim=1) / last[-1].norm()


def _heads(trace: Trace, site: str) -> int:
    weights = trace[site].weights
    return 1 if weights is None else weights.shape[1]
