"""Tables and claims about attention maps: other weights with the same output, and effective attention."""

from __future__ import annotations

from statistics import mean
from typing import Any

from regard.story import Claim, Verdict
from regard.story.steps._spread import spread
from regard.views.result import Curves, Table

LAYERS = 4
KINDS = ("A", "A⊥")
_EXACT, _NEAR = 1e-6, 0.01
_RUNS = {"model": "seeds", "passage": "passages"}

ByLayer = dict[tuple[int, str], list[float]]
"""By layer (from 1 on) and kind of weights: a correlation for each seed, or passage of text."""


def layers_of(found: ByLayer) -> list[int]:
    return sorted({layer for layer, _ in found})


def other_table(others: list[dict[str, Any]], found: ByLayer, run: str) -> Table:
    layers = len(layers_of(found))
    rows: list[list[str | float | int | None]] = [
        [number // layers + 1, number % layers + 1, mean(site["moved"]), max(site["most_moved"]), site["least"],
         site["sum_error"], site["error"]]
        for number, site in enumerate(others)
    ]  # fmt: skip
    columns = [run, "layer", "weight moved", "most in a row", "least weight", "change of sums", "change of A·T"]
    return Table("Other weights A′", columns, rows, "weight moved: half of Σ|A − A′|, mean of rows and heads")


def curves(found: ByLayer, run: str) -> Curves:
    series = {kind: [(float(layer), mean(found[layer, kind])) for layer in layers_of(found)] for kind in KINDS}
    return Curves("Correlation with attribution", "layer", f"Pearson's r, mean of the {_RUNS[run]}", series)


def table(name: str, found: ByLayer) -> Table:
    rows: list[list[str | float | int | None]] = [
        [layer, *(number for kind in KINDS for number in (mean(found[layer, kind]), spread(found[layer, kind])))]
        for layer in layers_of(found)
    ]
    columns = ["layer", "r of A", "± of A", "r of A⊥", "± of A⊥"]
    return Table(name, columns, rows, "correlation with the attribution to the input, in rows that have a null space")


def listed(found: ByLayer) -> dict[str, list[float]]:
    return {f"layer {layer}, {kind}": values for (layer, kind), values in found.items()}


def statements(others: list[dict[str, Any]], joint: ByLayer) -> list[str]:
    moved, most = mean(mean(site["moved"]) for site in others), max(max(site["most_moved"]) for site in others)
    both = [mean(mean(joint[layer, kind]) for layer in layers_of(joint)) for kind in KINDS]
    return [
        f"On average {moved:.0%} of a row's weight can go elsewhere with the same output, at most {most:.0%}.",
        f"Heads' mean and attribution, mean of the layers: r = {both[0]:.2f} for A and {both[1]:.2f} for A⊥.",
    ]


def claim_of_others(others: list[dict[str, Any]]) -> Claim:
    error, sums = max(site["error"] for site in others), max(site["sum_error"] for site in others)
    valid = error < _EXACT and sums < _EXACT and min(site["least"] for site in others) >= 0
    other = sum(max(site["most_moved"]) > _NEAR for site in others)
    verdict: Verdict = "does not hold here"
    if valid and other:
        verdict = "holds" if other == len(others) else "holds in part"
    return Claim(
        "Infinitely many attention weights can give the same output.",
        verdict,
        f"{other} of {len(others)} sites have weights A′ that are not negative, sum to 1 (to {sums:.0e}) and differ "
        f"from A by more than {_NEAR:.0%}; A′T equals AT to {error:.0e}. All points between A and A′ do so too.",
    )


def claim_of_effective(single: ByLayer, joint: ByLayer) -> Claim:
    layers = layers_of(joint)
    gains = [mean(kind[layer, "A⊥"]) - mean(kind[layer, "A"]) for kind in (joint, single) for layer in layers]
    better = sum(gain > 0 for gain in gains)
    verdict: Verdict = (
        "holds" if better == len(gains) else "holds in part" if better > len(gains) / 2 else "does not hold here"
    )
    numbers = ", ".join(f"{mean(joint[layer, 'A']):.2f} and {mean(joint[layer, 'A⊥']):.2f}" for layer in layers)
    return Claim(
        "Effective Attention correlates better with the output.",
        verdict,
        f"With the attribution, A and A⊥ (means of the heads) correlate by {numbers} in layers 1 to {layers[-1]}; A⊥ "
        f"is better in {better} of {len(gains)} comparisons (each layer, heads one by one and their mean). "
        "More than half would be holding in part.",
    )
