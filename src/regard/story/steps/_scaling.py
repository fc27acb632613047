"""Scores with and without the division by √d: their variance, and two gradients (claim 5)."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean
from typing import Any

import torch

from regard.attention.scores.dot import Dot
from regard.attention.scores.scaled_dot import ScaledDot
from regard.story import Claim, Verdict
from regard.story.steps._spread import spread
from regard.views.result import Curves, Table

WIDTHS = (4, 16, 64, 256, 1024)
SCORES = {"divided by √d": ScaledDot, "not divided": Dot}
_KEYS, _QUERIES = 32, 256

Measured = dict[str, dict[int, list[tuple[float, float, float]]]]
"""By score and width, for each seed: variance of the scores, gradient of the softmax, gradient of the query."""


def measure(seeds: Sequence[int]) -> Measured:
    return {
        name: {width: [scaled(kind(), width, seed) for seed in seeds] for width in WIDTHS}
        for name, kind in SCORES.items()
    }


def scaled(score: Any, width: int, seed: int) -> tuple[float, float, float]:
    """Variance of the scores of normal queries and keys, and the mean norms of two gradients."""
    chance = torch.Generator().manual_seed(seed)
    query_QE = torch.randn(_QUERIES, width, generator=chance, dtype=torch.float64)
    keys_QKE = torch.randn(_QUERIES, _KEYS, width, generator=chance, dtype=torch.float64)
    left, right, factor = score.as_dot(query_QE[:, None], keys_QKE)
    scores_QK = (left @ right.mT)[:, 0] * factor
    weights_QK = scores_QK.softmax(-1)
    slope_QKK = weights_QK.diag_embed() - weights_QK[:, :, None] * weights_QK[:, None]
    to_query = (slope_QKK @ keys_QKE * factor).flatten(1).norm(dim=1)
    return float(scores_QK.var()), float(slope_QKK.flatten(1).norm(dim=1).mean()), float(to_query.mean())


def curves(scores: Measured, which: int, name: str, axis: str) -> Curves:
    series = {
        kind: [(float(width), mean(seed[which] for seed in seeds)) for width, seeds in by_width.items()]
        for kind, by_width in scores.items()
    }
    return Curves(name, "d", axis, series, log_x=True, log_y=True)


def table(scores: Measured) -> Table:
    rows: list[list[str | float | int | None]] = [
        [kind, width, *(number(part) for part in zip(*seeds, strict=True) for number in (mean, spread))]
        for kind, by_width in scores.items()
        for width, seeds in by_width.items()
    ]
    names = ("variance of scores", "gradient of the softmax", "gradient of the query")
    columns = ["scores", "d", *(column for name in names for column in (name, "± of the seeds"))]
    return Table("Scores and gradients", columns, rows, f"{_QUERIES} normal queries with {_KEYS} normal keys each")


def claim(scores: Measured) -> Claim:
    def ends(kind: str, which: int) -> tuple[float, float]:
        first, last = (mean(seed[which] for seed in scores[kind][width]) for width in (WIDTHS[0], WIDTHS[-1]))
        return first, last

    (with_it, without) = SCORES
    unit = all(abs(mean(seed[0] for seed in seeds) - 1) < 0.1 for seeds in scores[with_it].values())
    kept, lost = (ends(kind, 1)[1] / ends(kind, 1)[0] for kind in (with_it, without))
    stable = 0.8 < kept < 1.25 and lost < 0.5
    verdict: Verdict = "holds" if unit and stable else "holds in part" if unit or stable else "does not hold here"
    return Claim(
        "Dividing by √d is added to ensure that the dot-product has unit variance; it is to stabilize the gradients.",
        verdict,
        f"At d = {WIDTHS[-1]} the variance is {ends(with_it, 0)[1]:.2f} with the division and "
        f"{ends(without, 0)[1]:.0f} without; from d = {WIDTHS[0]} on the gradient of the softmax "
        f"changes by a factor of {kept:.2f} with it and "
        f"{lost:.2f} without.",
    )
