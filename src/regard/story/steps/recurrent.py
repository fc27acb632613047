"""Recurrent nets and their gradients: an Elman net with a given spectral radius, gates, and attention (claim 8)."""

from __future__ import annotations

from statistics import mean, stdev
from typing import Any

from regard.explain import trace
from regard.explain.methods.gradients import compare
from regard.story import Claim, Stage, Told
from regard.story.steps import _recurrent_full
from regard.story.text import sentences
from regard.views.result import Curves, Result, Table

NUMBER, TITLE = 3, "Recurrent nets and their gradients"
LECTURE = """
A recurrent net reads one word after another and keeps what it has read in a state, h_t = tanh(W x_t + V h_{t−1}).
Without the tanh the state is a sum over all words so far, h_i ≈ Σ_j V^(i−j) W w_j: a word that lies k steps back is
multiplied by V^k. So its gradient vanishes or explodes with the size of V, which is its spectral radius. Gates (LSTM,
GRU) are meant to keep a way open; attention reads every word directly.
"""
COMMANDS = (
    'regard explain out/ptb_lstm "the company said it will sell its shares" --method gradients',
    "python benchmarks/gradient_flow.py",
)
RADII = (0.9, 1.0, 1.1)
_LENGTH = 40
_SHAPE = {"d_embedding": 48, "d_hidden": 48, "n_layers": 1}


def run(stage: Stage) -> Told:
    lines = sentences(400, seed=1)
    text = " ".join(" ".join(lines).split()[:_LENGTH])
    models: dict[str, tuple[str, dict[str, Any]]] = {
        **{f"Elman, radius {radius}": ("rnn", {**_SHAPE, "cell": "elman", "radius": radius}) for radius in RADII},
        "LSTM": ("rnn", {**_SHAPE, "cell": "lstm"}),
        "Transformer": ("gpt2", {"d_model": 48, "n_heads": 4, "n_layers": 1, "max_len": 64, "dropout": 0.0}),
    }
    curves, factors = dict[str, list[tuple[float, float]]](), dict[str, list[float]]()
    for name, (kind, options) in models.items():
        for seed in stage.seeds:
            stage.say(f"{name}, seed {seed}")
            model = stage.untrained(kind, options, lines, seed=seed)
            if kind == "rnn":
                _make_small(model)
            flow = compare({name: trace(model, text, weights=False)}, probes=48).data[name]
            factors.setdefault(name, []).append(flow["factor"])
            if seed == stage.seeds[0]:
                curves[name] = list(zip(map(float, flow["distance"]), flow["norm"], strict=True))
    rows: list[list[str | float | int | None]] = [
        [name, mean(values), stdev(values) if len(values) > 1 else None] for name, values in factors.items()
    ]
    result = Result(
        "story",
        "How the gradient changes with the distance to a word",
        [
            Curves("Gradient by distance", "distance t − s", "‖∂h_t/∂x_s‖", curves, log_y=True),
            Table(
                "Factor per step",
                ["model", "mean of the seeds", "standard deviation"],
                rows,
                f"random weights, {len(stage.seeds)} seeds; 1 would keep the gradient as it is",
            ),
        ],
        [f"{name}: {mean(values):.3f} a step." for name, values in factors.items()],
        {"factors": factors},
    )
    return Told(result, [_claim(factors)], FOLLOWS)


FOLLOWS = """
A gradient that falls by a factor each step cannot teach a net that the first word matters for the last. Squeezing a
whole sentence into the last state asks for just that: the next step shows what it costs.
"""

FULL = "the gradients of a trained LSTM (recipes/ptb_lstm.yaml) on text of the Penn Treebank."


def full(stage: Stage) -> Told:
    return _recurrent_full.told(stage, FOLLOWS)


def _make_small(model: Any) -> None:
    """Embeddings so small that tanh is nearly linear: the lecture's formula leaves the tanh out."""
    model.model.embedding.weight.data.mul_(0.05)


def _claim(factors: dict[str, list[float]]) -> Claim:
    means = [mean(factors[f"Elman, radius {radius}"]) for radius in RADII]
    near = all(abs(value - radius) < 0.03 for value, radius in zip(means, RADII, strict=True))
    ordered = means[0] < means[1] < means[2]
    numbers = ", ".join(f"{value:.3f} at radius {radius}" for value, radius in zip(means, RADII, strict=True))
    return Claim(
        "Gradients vanish or explode with the recurrent matrix: h_i ≈ Σ V^(i−j) W w_j.",
        "holds" if near else "holds in part" if ordered else "does not hold here",
        f"The gradient of an Elman net changes by a factor of {numbers} with each step back.",
    )
