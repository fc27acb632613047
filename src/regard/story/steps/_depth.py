"""Gradients through a deep stack (claim 6), and how many operations of a layer are sequential (claim 9)."""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from statistics import mean
from typing import Any

import torch
from torch import Tensor

from regard.explain.chains import chain_lengths
from regard.layers.residual import ORDERS
from regard.models import config_of, make_model
from regard.story import Claim, Verdict
from regard.story.steps._spread import spread
from regard.views.result import Curves, Table

LAYERS, LENGTHS = 12, (8, 32, 128)
_WORDS, _ROWS, _LENGTH, _WIDTH = 50, 16, 20, 16

Norms = dict[str, list[list[float]]]
"""By order, for each seed: the norm of the gradient of each layer's weights."""


def gradient_norms(seeds: Sequence[int]) -> Norms:
    return {order: [_gradients(order, seed) for seed in seeds] for order in ORDERS}


def _gradients(order: str, seed: int) -> list[float]:
    """One batch of random words with random classes, through an encoder with random weights."""
    torch.manual_seed(seed)
    sizes = {"d_model": 64, "n_heads": 4, "n_layers": LAYERS, "d_ff": 256, "pooling": "mean"}
    options = {**sizes, "vocab_size": _WORDS, "order": order, "dropout": 0.0}
    model: Any = make_model("encoder", config_of("encoder", options))
    logits = model(torch.randint(_WORDS, (_ROWS, _LENGTH))).logits
    torch.nn.functional.cross_entropy(logits, torch.randint(2, (_ROWS,))).backward()
    return [
        float(torch.cat([part.grad.flatten() for part in block.parameters() if part.grad is not None]).norm())
        for block in model.encoder
    ]


def factor(norms: Sequence[float]) -> float:
    """The factor by which the gradient changes from a layer to the one below, as a geometric mean."""
    return float((norms[0] / norms[-1]) ** (1 / (len(norms) - 1)))


def norm_curves(norms: Norms) -> Curves:
    series = {
        order: [(float(layer), mean(seed[layer - 1] for seed in seeds)) for layer in range(1, LAYERS + 1)]
        for order, seeds in norms.items()
    }
    return Curves("Gradient by depth", "layer", "norm of the gradient, mean of the seeds", series, log_y=True)


def norm_table(norms: Norms) -> Table:
    rows: list[list[str | float | int | None]] = []
    for order, seeds in norms.items():
        factors, first = [factor(seed) for seed in seeds], [seed[0] for seed in seeds]
        rows.append([order, mean(factors), spread(factors), mean(first), spread(first)])
    columns = ["order", "factor per layer", "± of the factor", "norm in layer 1", "± of the norm"]
    return Table(
        "Residual connections", columns, rows, f"{LAYERS} layers with random weights, from the last layer down"
    )


def residual_claim(norms: Norms) -> Claim:
    size = {order: mean(abs(log(factor(seed))) for seed in seeds) for order, seeds in norms.items()}
    better = sum(size[order] < size["none"] / 2 for order in ("post", "pre"))
    verdict: Verdict = "holds" if better == 2 else "holds in part" if better else "does not hold here"
    told = ", ".join(
        f"{mean(map(factor, seeds)):.2f} ± {spread([*map(factor, seeds)]):.2f} (order {order})"
        for order, seeds in norms.items()
    )
    sizes = ", ".join(f"{value:.3f} ({order})" for order, value in size.items())
    return Claim(
        "Residual connections help with cleaner gradient flows during back-prop.",
        verdict,
        f"From a layer to the one below the gradient changes by a factor of {told}. Its logarithm "
        f"is {sizes} in size, mean of the seeds; cleaner is less than half of that without residual connections.",
    )


def steps() -> dict[str, list[tuple[int, int]]]:
    """For each layer and length: sequential operations, and the shortest chain from the last to the first word."""
    return {name: [_ways(layer, length) for length in LENGTHS] for name, layer in _LAYERS.items()}


def _recurrent(words: list[Tensor], weight: Tensor) -> Tensor:
    state = torch.zeros(_WIDTH)
    for word in words:
        state = torch.tanh(word + state @ weight)
    return state


def _attention(words: list[Tensor], weight: Tensor) -> Tensor:
    x = torch.stack(words)
    mixed: Tensor = ((x[-1] @ weight @ x.T) / _WIDTH**0.5).softmax(-1) @ x
    return mixed


_LAYERS = {"recurrent layer": _recurrent, "self-attention": _attention}


def _ways(layer: Any, length: int) -> tuple[int, int]:
    weight = torch.randn(_WIDTH, _WIDTH)
    return chain_lengths(lambda words: [layer(words, weight)], length, _WIDTH)


def step_table(found: dict[str, list[tuple[int, int]]]) -> Table:
    rows: list[list[str | float | int | None]] = [
        [name, length, *ways]
        for name, by_length in found.items()
        for length, ways in zip(LENGTHS, by_length, strict=True)
    ]
    columns = ["layer", "n", "operations one after another", "shortest way to the first word"]
    return Table("Sequential steps", columns, rows, "counted in the graph of operations, from the last output")


def step_claim(found: dict[str, list[tuple[int, int]]]) -> Claim:
    ratio = LENGTHS[-1] / LENGTHS[0]
    grows = {name: ways[-1][0] / ways[0][0] for name, ways in found.items()}
    linear = grows["recurrent layer"] > ratio / 2
    constant = grows["self-attention"] == 1
    verdict: Verdict = (
        "holds" if linear and constant else "holds in part" if linear or constant else "does not hold here"
    )
    told = "; ".join(f"{name}: {ways[0][0]} and {ways[-1][0]}" for name, ways in found.items())
    return Claim(
        "Recurrent nets have O(n) sequential dependence; attention removes sequential bottlenecks: O(1).",
        verdict,
        f"Operations one after another at n = {LENGTHS[0]} and n = {LENGTHS[-1]}: {told}.",
    )
