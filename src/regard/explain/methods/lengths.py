"""How well a language model reads past the length it was trained with: loss against position.

A causal model's loss at position p depends only on the p tokens before it, so one window of the longest length contains
every shorter one: the text is cut into windows, each is scored once, and losses are averaged by position. Position
schemes differ past the trained length: learned positions end there; sinusoidal and rotary positions take values never
seen in training; relative positions and ALiBi only get distances that they clip or give little weight (Press et al.
2022, Train Short, Test Long).

Standard errors are over windows. Positions are averaged in buckets; no bucket spans the trained length.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from regard.core.errors import UsageError
from regard.explain.language_models import begin_ids, check_language_model, read_text, token_ids
from regard.views.result import Curves, Result, Table

LOOKS_AT = "model"

_TOKENS = 2**14
_PAIRS = 2**24
_LOGITS = 2**27


@dataclass(frozen=True)
class Losses:
    """Nats per token [W,P] of one model: windows × positions; at position p the model has read p tokens, p ≥ 1."""

    name: str
    scheme: str
    trained: int
    limit: int | None
    """The model's last position; None: no limit."""
    loss_WP: Tensor

    @property
    def reached(self) -> int:
        return self.loss_WP.shape[1]

    def over(self, first: int, last: int) -> tuple[float, float] | None:
        """Mean and standard error over positions first … last, as far as the model reaches."""
        part_WP = self.loss_WP[:, first - 1 : last]
        return _mean(part_WP.mean(1)) if part_WP.shape[1] else None


def lengths(
    model: Any,
    *,
    text: str,
    longest: int | None = None,
    trained: int | None = None,
    windows: int = 64,
    points: int = 32,
) -> Result:
    """Loss by position up to `longest` tokens (by default 4 × the trained length) over `windows` parts of the file.

    `trained` is the length that the model was trained with, by default its configured longest input.
    """
    check_language_model(model, "lengths")
    return compare({_scheme(model): model}, text=text, longest=longest, trained=trained, windows=windows, points=points)


def compare(
    models: Mapping[str, Any],
    *,
    text: str,
    longest: int | None = None,
    trained: int | None = None,
    windows: int = 64,
    points: int = 32,
) -> Result:
    """The same for several models, by name, in one figure, for example one for each position scheme."""
    if not models:
        raise UsageError("no models to compare", remedy="Give one or more by name.")
    for model in models.values():
        check_language_model(model, "lengths")
    lengths_of = {name: _trained(model, trained) for name, model in models.items()}
    longest = longest or 4 * max(lengths_of.values())
    if min(longest, windows, points) < 1 or longest < 2:
        raise UsageError("longest, windows and points must be positive", got=f"{longest}, {windows}, {points}")
    held = read_text(text)
    loss_curves = []
    for name, model in models.items():
        rows = _rows(begin_ids(model), token_ids(model, held), longest, windows, text)
        limit = getattr(model.model, "longest", None)
        shown = rows if limit is None else rows[:, : limit + 1]
        loss_curves.append(Losses(name, _scheme(model), lengths_of[name], limit, losses(model.model, shown)))
    return _result(loss_curves, longest, points)


@torch.inference_mode()
def losses(model: Any, rows_WT: Tensor) -> Tensor:
    """−log p of each token but the first of each row, [W,T−1], in batches that fit into memory."""
    length = rows_WT.shape[1] - 1
    vocabulary = int(getattr(model.config, "vocab_size", 1))
    at_once = max(1, min(_TOKENS // length, _PAIRS // length**2, _LOGITS // (length * vocabulary)))
    parts = []
    for rows in rows_WT.split(at_once):
        logits_BTV = model(rows[:, :-1]).logits.float()
        parts.append(cross_entropy(logits_BTV.transpose(1, 2), rows[:, 1:], reduction="none"))
    return torch.cat(parts).double()


def edges(trained: int, longest: int, points: int, reached: int) -> list[tuple[int, int]]:
    """First and last position of each bucket. All have one width that divides the trained length, with at least
    `points` buckets up to the longest; they end where the model's positions end."""
    widest = max(1, longest // points)
    width = max(size for size in range(1, min(widest, trained) + 1) if trained % size == 0)
    return [(first, min(first + width - 1, reached)) for first in range(1, reached + 1, width)]


def _rows(begin: list[int], ids: list[int], longest: int, windows: int, path: str) -> Tensor:
    """[W, longest + 1]: windows that do not overlap, spread evenly over the text."""
    size = longest + 1 - len(begin)
    count = min(windows, len(ids) // size)
    if count < 1:
        raise UsageError(
            f"{path} is too short",
            got=f"{len(ids)} tokens",
            expected=f"at least {size}",
            remedy="Give a longer text, or a smaller longest.",
        )
    step = (len(ids) - size) // max(count - 1, 1)
    return torch.tensor([begin + ids[i * step : i * step + size] for i in range(count)])


def _trained(model: Any, given: int | None) -> int:
    known = given or getattr(model.config, "max_len", None)
    if known is None or known < 2:
        raise UsageError("the trained length is not known", got=known, remedy="Give it: trained=256.")
    limit = getattr(model.model, "longest", None)
    return int(min(known, limit or known))


def _scheme(model: Any) -> str:
    """The name of the position scheme: from the configuration, or the rotary scheme of the Llama family."""
    name = getattr(model.config, "position", None)
    scaling = getattr(model.config, "scaling", "none")
    return str(name) if name is not None else "rotary" + ("" if scaling in (None, "none") else f", {scaling}")


def _mean(values_W: Tensor) -> tuple[float, float]:
    error = values_W.std().item() / math.sqrt(len(values_W)) if len(values_W) > 1 else math.nan
    return values_W.mean().item(), error


def _ranges(trained: int, longest: int) -> list[tuple[int, int]]:
    """Half of the trained length, the other half, then doublings to the longest."""
    ranges = [(1, trained // 2), (trained // 2 + 1, trained)]
    while ranges[-1][1] < longest:
        last = ranges[-1][1]
        ranges.append((last + 1, min(2 * last, longest)))
    return [(first, min(last, longest)) for first, last in ranges if first <= longest]


def _result(loss_curves: list[Losses], longest: int, points: int) -> Result:
    series: dict[str, list[tuple[float, float]]] = {}
    bands: dict[str, list[tuple[float, float, float]]] = {}
    data: dict[str, Any] = {"longest": longest, "models": {}}
    for curve in loss_curves:
        buckets = edges(curve.trained, longest, points, curve.reached)
        means = [curve.over(*bucket) or (math.nan, math.nan) for bucket in buckets]
        middles = [(first + last) / 2 for first, last in buckets]
        series[curve.name] = [(x, mean) for x, (mean, _) in zip(middles, means, strict=True)]
        if len(curve.loss_WP) > 1:
            bands[curve.name] = [(x, mean - se, mean + se) for x, (mean, se) in zip(middles, means, strict=True)]
        data["models"][curve.name] = {
            "position": curve.scheme,
            "trained": curve.trained,
            "limit": curve.limit,
            "windows": len(curve.loss_WP),
            "buckets": [list(bucket) for bucket in buckets],
            "loss": [mean for mean, _ in means],
            "standard_error": [None if math.isnan(se) else se for _, se in means],
            "loss_by_position": curve.loss_WP.mean(0).tolist(),
        }
    note = f"bands: one standard error over {min(len(curve.loss_WP) for curve in loss_curves)} windows"
    curves = Curves("Loss by position", x="tokens before", y="nats per token", series=series, bands=bands, note=note)
    table, ranges = _table(loss_curves, longest)
    data["ranges"] = ranges
    return Result(
        method="lengths",
        title=f"Loss by length up to {longest} tokens",
        panels=[curves, table],
        statements=[sentence for curve in loss_curves for sentence in _statements(curve, longest)],
        data=data,
    )


def _table(loss_curves: list[Losses], longest: int) -> tuple[Table, dict[str, dict[str, float | None]]]:
    ranges = _ranges(max(curve.trained for curve in loss_curves), longest)
    names = [f"{first}–{last}" for first, last in ranges]
    rows: list[list[str | float | int | None]] = []
    exact: dict[str, dict[str, float | None]] = {}
    for curve in loss_curves:
        # No mean for a range in which the model's positions end.
        means = [curve.over(*bounds) if bounds[1] <= curve.reached else None for bounds in ranges]
        exact[curve.name] = {name: mean and mean[0] for name, mean in zip(names, means, strict=True)}
        rows.append([curve.name, *(None if mean is None else round(mean[0], 3) for mean in means)])
    return Table("Nats per token at positions", ["model", *names], rows), exact


def _statements(curve: Losses, longest: int) -> list[str]:
    statements = []
    if curve.limit is not None and curve.limit < longest:
        statements.append(
            f"{curve.name}: cannot read more than its {curve.limit} learned positions; the curve ends there."
        )
    ranges = _ranges(curve.trained, curve.reached)
    if len(ranges) < 3 or len(curve.loss_WP) < 2:
        return statements
    (low, high), (first, last) = ranges[1], ranges[-1]
    near_W, far_W = curve.loss_WP[:, low - 1 : high].mean(1), curve.loss_WP[:, first - 1 : last].mean(1)
    rise, error = _mean(far_W - near_W)
    way = "holds" if abs(rise) <= 2 * error else "rises" if rise > 0 else "falls"
    statements.append(
        f"{curve.name}: loss {way} past the trained {curve.trained} tokens: {near_W.mean():.3f} nats per token at "
        f"positions {low}–{high}, {far_W.mean():.3f} at {first}–{last} ({rise:+.3f} ± {error:.3f})."
    )
    return statements
