"""Which inputs a hidden state or an answer comes from.

hidden token attribution (Brunner et al. 2020), of hidden state c_j at layer l to input vector x_i:

    attr(x_i, c_j) = ‖∂c_j/∂x_i‖ (Frobenius)        contribution = attr / Σ_k attr(x_k, c_j)

    exact       every feature's gradient          probes      an unbiased estimate of the squared norm, with its error

of the answer (a log-probability, see `Subject.score`) to input vector x_i:

    gradient    ∂y/∂x_i · (x_i − b)               gradient × input (b is the baseline)
    integrated  ∫ ∂y/∂x on the line from b to x, times x − b (Sundararajan et al. 2017); its parts should sum to
                y(x) − y(b), and the result reports the difference (completeness)
    occlusion   y(x) − y(x with x_i replaced by b)

x is the input of the first block: embedding, position and anything else the model adds. The baseline b is the mean of
the row's vectors, which carries no information about single tokens, or the zero vector. Zero is usual, but wrong for
models that begin with a norm: their output does not change on the line from x to zero and jumps at its end, so that
integrated gradients are not complete.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.core import taps
from regard.core.articles import with_article
from regard.core.errors import UnknownName, UsageError
from regard.explain.chosen import answered, input_of, looked_at, numbers, pick, pictured
from regard.explain.jacobian import Moved, moved
from regard.explain.subject import Subject
from regard.explain.traces import Trace
from regard.views.result import Curves, Heads, HeadSite, Matrix, Panel, Result, Words

LOOKS_AT = "trace"

HIDDEN, ANSWER = ("exact", "probes"), ("gradient", "integrated", "occlusion")
_COPIES = 32
_NAMES = {"gradient": "Gradient × input", "integrated": "Integrated gradients", "occlusion": "Occlusion"}


def attribute(
    trace: Trace,
    *,
    how: str = "probes",
    layer: str | None = None,
    inputs: str | None = None,
    row: int = 0,
    probes: int = 64,
    steps: int = 64,
    baseline: str = "mean",
    seed: int = 0,
) -> Result:
    """Which input tokens states (--how exact, probes) or the answer (gradient, integrated, occlusion) come from."""
    if how not in HIDDEN + ANSWER:
        raise UnknownName("way of attribution", how, HIDDEN + ANSWER)
    if how in ANSWER:
        return _of_answer(trace, how, row, steps, baseline)
    if how == "probes" and probes < 1:
        raise UsageError("probes must be positive", got=probes, expected="1 or more")
    names, count = [pick(trace, layer)] if layer != "all" else trace.layers(), None if how == "exact" else probes
    if layer == "all" and inputs in trace.hidden:  # earlier layers do not depend on these inputs
        names = [name for name in list(trace.hidden)[list(trace.hidden).index(inputs) + 1 :] if name in names]
    known: dict[str, Any] = {}
    by_layer = {
        name: attributed(trace, name, inputs=inputs, row=row, probes=count, seed=seed, known=known) for name in names
    }
    return _of_states(trace, by_layer, inputs, row, how)


def attributed(
    trace: Trace,
    layer: str,
    *,
    inputs: str | None = None,
    row: int = 0,
    probes: int | None = None,
    seed: int = 0,
    plain: bool = False,
    known: dict[str, Any] | None = None,
) -> Moved:
    """Squared Jacobian norms of one layer's states with respect to the input vectors."""
    entry = inputs or input_of(trace, layer)
    _check_vectors(trace)
    if entry not in trace.hidden:
        raise UnknownName("input", entry, [name for name in trace.hidden if name.endswith(".input")])
    order = list(trace.hidden)
    if order.index(entry) >= order.index(layer):
        raise UsageError(f"{layer} does not depend on {entry}", remedy="Give a layer that comes after it.")
    lengths = len(labels_of(trace, layer, row)), len(labels_of(trace, entry, row))
    return moved(
        trace.live(), row, trace.hidden, layer=layer, inputs=entry, lengths=lengths, probes=probes, seed=seed,
        plain=plain, known=known,
    )  # fmt: skip


def _check_vectors(trace: Trace) -> None:
    if not any(name.endswith(".input") for name in trace.hidden):
        raise UsageError(
            "this model has no input vectors to attribute to",
            got=with_article(trace.model),
            remedy="An n-gram model is explained by --method orders.",
        )


def labels_of(trace: Trace, name: str, row: int) -> list[str]:
    """The tokens that a layer's states or an input's vectors belong to."""
    return trace.labels(trace.side_of(name), row)


def _of_states(trace: Trace, by_layer: Mapping[str, Moved], inputs: str | None, row: int, how: str) -> Result:
    panels: list[Panel] = []
    sites, data, own_points, other_points = {}, dict[str, Any](), [], []
    for number, (layer, attribution) in enumerate(by_layer.items(), 1):
        entry = inputs or input_of(trace, layer)
        rows, columns = labels_of(trace, layer, row), labels_of(trace, entry, row)
        shares = attribution.contributions
        sites[layer] = HeadSite(rows, columns, {"attribution": shares[None].float()})
        data[layer] = {"norms": attribution.norms.tolist(), "contributions": shares.tolist()}
        if attribution.error is not None:
            data[layer]["squared_norms"] = attribution.squares.tolist()
            data[layer]["standard_errors"] = attribution.error.tolist()
        if layer.split(".")[0] == entry.split(".")[0] and len(rows) == len(columns):
            own = shares.diagonal()
            data[layer]["self_contribution"] = float(own.mean())
            data[layer]["not_main"] = float((shares.argmax(1) != torch.arange(len(rows))).double().mean())
            own_points.append((float(number), data[layer]["self_contribution"]))
            other_points.append((float(number), data[layer]["not_main"]))
    last = list(by_layer)[-1]
    picture, entry = sites[last], inputs or input_of(trace, last)
    note = "rows: states, columns: input tokens; each row sums to one"
    others = [name for name in trace.hidden if name.endswith(".input") and name != entry]
    if others and last.startswith("decoder"):
        note += f"; for contributions of the other side: --inputs {others[0]}"
    values = numbers(picture.kinds["attribution"][0])
    whole = Matrix(f"Contributions to {last}", picture.rows, picture.columns, values, note=note)
    title = f"Contributions to {picture.rows[0]} of {last}"
    panels += pictured(trace, trace.side_of(entry), title, picture.kinds["attribution"][0, 0]) or [whole]
    if len(own_points) > 1:
        series = {"self-contribution": own_points, "another token contributes most": other_points}
        panels.append(Curves("By layer", "layer", "share", series))
    return Result(
        "attribute",
        f"Hidden token attribution of {trace.model}: {looked_at(trace, row)}",
        panels,
        [*answered(trace, row), *_statements(by_layer, data, how)],
        {"how": how, "layers": data, "output": trace.output},
        Heads(sites, ["attribution"]),
    )


def _statements(by_layer: Mapping[str, Moved], data: Mapping[str, Any], how: str) -> list[str]:
    statements = []
    for layer, facts in data.items():
        if "self_contribution" in facts:
            statements.append(
                f"{layer}: {facts['self_contribution']:.0%} of a state comes from its own token (mean); "
                f"for {facts['not_main']:.0%} of the tokens another one contributes most."
            )
    if how == "probes":
        spread = [
            float((attribution.error / attribution.squares.clamp_min(1e-30)).mean())
            for attribution in by_layer.values()
            if attribution.error is not None
        ]
        statements.append(
            f"Estimated with random probes: squared norms are known to ±{max(spread):.1%} (standard error, mean); "
            "--how exact computes them exactly."
        )
    return statements


def _of_answer(trace: Trace, how: str, row: int, steps: int, baseline: str) -> Result:
    if baseline not in ("zero", "mean"):
        raise UnknownName("baseline", baseline, ("zero", "mean"))
    if steps < 1:
        raise UsageError("steps must be positive", got=steps, expected="1 or more")
    parts, whole, empty = answer_parts(trace, how=how, row=row, steps=steps, baseline=baseline)
    panels: list[Panel] = []
    note = "above zero: evidence for the answer; below: against it"
    data: dict[str, Any] = {"how": how, "score": whole, "score_of_baseline": empty, "output": trace.output}
    for name, part in parts.items():
        labels = labels_of(trace, name, row)
        values = part[: len(labels)].double().tolist()
        data[name] = dict(zip(("tokens", "values"), (labels, values), strict=True))
        title = f"{_NAMES[how]} of the answer" + (f", {name.split('.')[0]}" if len(parts) > 1 else "")
        words = Words(title, labels, values, note=note)
        panels += pictured(trace, trace.side_of(name), title, part, diverging=True, note=note) or [words]
    score = f"The answer's score is {whole:.3f}; with the baseline ({baseline}) for every token it is {empty:.3f}."
    statements = [*answered(trace, row), score.replace("-", "−")]
    if how == "integrated":
        total = sum(float(part.double().sum()) for part in parts.values())
        data["completeness_error"] = total - (whole - empty)
        error = abs(data["completeness_error"])
        statements.append(f"The parts sum to {total:.4f}, {error:.1e} off the change of the score (completeness).")
        if error > 0.05 * abs(whole - empty):
            statements.append(f"This error is large: use more than {steps} steps (--steps).")
    title = f"Attribution of the answer of {trace.model}: {looked_at(trace, row)}"
    return Result("attribute", title, panels, statements, data)


def answer_parts(
    trace: Trace, *, how: str = "integrated", row: int = 0, steps: int = 64, baseline: str = "zero"
) -> tuple[dict[str, Tensor], float, float]:
    """The part of each input vector in the answer's score, by input [T]; the score; and the score of the baseline."""
    subject = trace.live()
    _check_vectors(trace)
    entries = {name: x[row] for name, x in trace.hidden.items() if name.endswith(".input")}
    bases = {name: _base(x, baseline, len(labels_of(trace, name, row))) for name, x in entries.items()}
    ways = {"gradient": _gradient, "integrated": _integrated, "occlusion": _occlusion}
    parts = ways[how](subject, row, entries, bases, steps)
    with torch.no_grad():
        whole, empty = (float(_scores(subject, row, {k: v[None] for k, v in at.items()})[0]) for at in (entries, bases))
    return parts, whole, empty


def _base(x: Tensor, baseline: str, length: int) -> Tensor:
    return torch.zeros_like(x) if baseline == "zero" else x[:length].mean(0).expand_as(x).clone()


def _scores(subject: Subject, row: int, at: Mapping[str, Tensor]) -> Tensor:
    """The answer's score [N] for input vectors [N,T,D]."""
    copies = len(next(iter(at.values())))
    with taps.alter({name: lambda _, __, x=x: x for name, x in at.items()}):  # type: ignore[misc]
        return subject.repeated(copies, row).scores()


def _slopes(subject: Subject, row: int, at: Mapping[str, Tensor]) -> dict[str, Tensor]:
    leaves = {name: x.detach().clone().requires_grad_() for name, x in at.items()}
    with torch.enable_grad():
        total = _scores(subject, row, leaves).sum()
    gradients = torch.autograd.grad(total, list(leaves.values()), allow_unused=True)
    return {
        name: torch.zeros_like(leaf) if slope is None else slope
        for (name, leaf), slope in zip(leaves.items(), gradients, strict=True)
    }


def _gradient(
    subject: Subject, row: int, x: Mapping[str, Tensor], base: Mapping[str, Tensor], _: int
) -> dict[str, Tensor]:
    slopes = _slopes(subject, row, {name: states[None] for name, states in x.items()})
    return {name: (slopes[name][0] * (x[name] - base[name])).sum(-1) for name in x}


def _integrated(
    subject: Subject, row: int, x: Mapping[str, Tensor], base: Mapping[str, Tensor], steps: int
) -> dict[str, Tensor]:
    """Gauss–Legendre points on the straight line, in batches."""
    points, weights = (torch.from_numpy(part).float() for part in np.polynomial.legendre.leggauss(steps))
    places, weights = (points + 1) / 2, weights / 2
    total = {name: torch.zeros_like(states) for name, states in x.items()}
    for start in range(0, steps, _COPIES):
        part, share = places[start : start + _COPIES, None, None], weights[start : start + _COPIES, None, None]
        slopes = _slopes(subject, row, {name: base[name] + part * (x[name] - base[name]) for name in x})
        for name in x:
            total[name] += (slopes[name] * share).sum(0)
    return {name: (total[name] * (x[name] - base[name])).sum(-1) for name in x}


@torch.no_grad()
def _occlusion(
    subject: Subject, row: int, x: Mapping[str, Tensor], base: Mapping[str, Tensor], _: int
) -> dict[str, Tensor]:
    whole = _scores(subject, row, {name: states[None] for name, states in x.items()})[0]
    effects = {}
    for name, states in x.items():
        scores = []
        for start in range(0, len(states), _COPIES):
            places = torch.arange(start, min(start + _COPIES, len(states)))
            many = states.expand(len(places), -1, -1).clone()
            many[torch.arange(len(places)), places] = base[name][places]
            others = {other: x[other].expand(len(places), -1, -1) for other in x if other != name}
            scores.append(_scores(subject, row, {name: many, **others}))
        effects[name] = whole - torch.cat(scores)
    return effects
