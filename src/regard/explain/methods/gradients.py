"""Gradient flow: how strongly a state depends on inputs far away (Bengio et al. 1994, Hochreiter 1998).

‖∂h_t/∂x_s‖ against the distance |t − s|, as the mean over all pairs at that distance, for any model. In an Elman
network it falls or grows by a factor per step, which is fitted as the slope of its logarithm; gates and attention are
meant to change that. `--untrained` adds the same model with new random weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from regard.core.articles import with_article
from regard.core.errors import UsageError
from regard.explain.chosen import input_of, looked_at, pick, suited
from regard.explain.methods.attribute import attributed, labels_of
from regard.explain.recording import record
from regard.explain.traces import Trace
from regard.views.result import Curves, Result, Table

LOOKS_AT = "trace"


def gradients(
    trace: Trace, *, layer: str | None = None, row: int = 0, probes: int = 32, untrained: bool = True, seed: int = 0
) -> Result:
    """‖∂h_t/∂x_s‖ by distance, for the model and the same model untrained."""
    traces = {"trained": trace}
    if untrained:
        fresh = trace.live().untrained
        if fresh is None:
            raise UsageError("this model cannot be made again with random weights", remedy="Use --untrained false.")
        traces["untrained"] = record(fresh(seed), weights=False)
    return compare(traces, layer=layer, row=row, probes=probes, seed=seed)


def compare(
    traces: Mapping[str, Trace], *, layer: str | None = None, row: int = 0, probes: int = 32, seed: int = 0
) -> Result:
    """The gradient flow of several models, by name."""
    if probes < 1:
        raise UsageError("probes must be positive", got=probes, expected="1 or more")
    data: dict[str, Any] = {}
    for name, trace in traces.items():
        stack = "encoder" if trace.layers("encoder") else "decoder"
        last = layer or _last_of_inputs(trace, stack)
        if last is None:
            raise UsageError(
                "gradient flow needs a layer with a state for each token",
                got=f"{with_article(trace.model)} without one",
                remedy=suited(trace),
            )
        chosen = pick(trace, last, None if layer else stack)
        if len(labels_of(trace, chosen, row)) < 3:
            remedy = "Give a longer text, or use another --method."
            raise UsageError("gradient flow needs a longer text", got="fewer than 3 tokens", remedy=remedy)
        norms = attributed(trace, chosen, row=row, probes=probes, seed=seed).norms
        data[name] = {"model": trace.model, "layer": chosen, **by_distance(norms)}
    series = {
        f"{name} ({curve['model']})": [
            (float(gap), value) for gap, value in zip(curve["distance"], curve["norm"], strict=True)
        ]
        for name, curve in data.items()
    }
    first = next(iter(traces.values()))
    rows: list[list[str | float | int | None]] = [
        [name, curve["model"], curve["layer"], curve["norm"][0], curve["norm"][-1], curve["factor"]]
        for name, curve in data.items()
    ]
    return Result(
        "gradients",
        f"Gradient flow: {looked_at(first, row)}",
        [
            Curves("‖∂h_t/∂x_s‖ by distance", "distance |t − s|", "norm", series, log_y=True),
            Table("Factor per step", ["", "model", "layer", "at distance 0", "at the longest", "factor"], rows),
        ],
        [_statement(name, curve) for name, curve in data.items()],
        data,
    )


def _last_of_inputs(trace: Trace, stack: str) -> str | None:
    """The last layer with a state for each input; sentences, for example, have no distance to words."""
    layers = [name for name in trace.layers(stack) if trace.side_of(name) == trace.side_of(input_of(trace, name))]
    return layers[-1] if layers else None


def by_distance(norms: torch.Tensor) -> dict[str, Any]:
    """The mean norm at each distance, and its factor per step (from distance 1 on)."""
    places = torch.arange(norms.shape[0])
    gap = (places[:, None] - torch.arange(norms.shape[1])).abs()
    seen = norms > 0
    gaps = [int(distance) for distance in gap.unique() if bool((seen & (gap == distance)).any())]
    means = [float(norms[(gap == distance) & seen].mean()) for distance in gaps]
    factor = float("nan")
    if len([distance for distance in gaps if distance > 0]) > 1:
        x = torch.tensor([float(distance) for distance in gaps if distance > 0], dtype=torch.double)
        y = torch.tensor(
            [mean for distance, mean in zip(gaps, means, strict=True) if distance > 0], dtype=torch.double
        ).log()
        slope = ((x - x.mean()) * (y - y.mean())).sum() / (x - x.mean()).square().sum()
        factor = float(slope.exp())
    return {"distance": gaps, "norm": means, "factor": factor}


def _statement(name: str, curve: Mapping[str, Any]) -> str:
    factor = curve["factor"]
    word = "vanishes" if factor < 0.97 else "explodes" if factor > 1.03 else "keeps its size"
    return f"{name}: the gradient {word} ({factor:.3f} per step at {curve['layer']})."
