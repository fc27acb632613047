"""Self-attention costs n²·d, a recurrent layer n·d²: measured over n, drawn, with the place where they cross.

    python benchmarks/complexity.py          writes docs/images/complexity.svg and a table to benchmarks/RESULTS.md

All layers read [1, n, d] and write the same shape. Attention is measured twice, each alone: stage by stage, where the
n × n matrix of weights is made and no fused kernel runs, and by the fused kernel, which never makes it; one head,
without projections. The recurrent layer is an Elman net. One thread, float32, no gradients.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import torch
from _results import add_results, put
from matplotlib.figure import Figure
from torch import Tensor

import regard
from regard.attention.choosers.softmax import Softmax
from regard.layers.recurrent import Recurrent

WIDTH = 256
LENGTHS = (64, 128, 256, 512, 1024, 2048, 4096, 8192)
DOCS = Path(__file__).parents[1] / "docs"


class StagedSoftmax(Softmax):
    """The same softmax, which says that no fused kernel stands for it: `attend` then goes stage by stage."""

    fused = False


def layers(x: Tensor, net: Recurrent) -> dict[str, Callable[[], Tensor]]:
    """What is timed, by name."""
    staged = StagedSoftmax()
    return {
        "self-attention, stage by stage": lambda: regard.attend(x, x, x, chooser=staged).context,
        "self-attention, fused": lambda: regard.attend(x, x, x).context,
        "recurrent (Elman)": lambda: net(x),
    }


def seconds(calls: dict[str, Callable[[], Tensor]], rounds: int) -> dict[str, float]:
    """Medians, in turns; the first turn warms up."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds + 1):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - start)
    return {name: median(values[1:]) for name, values in times.items()}


def measure(lengths: list[int]) -> dict[str, list[float]]:
    torch.set_num_threads(1)
    net = Recurrent("elman", WIDTH, WIDTH)
    times: dict[str, list[float]] = {}
    with torch.no_grad():
        for n in lengths:
            for name, value in seconds(layers(torch.randn(1, n, WIDTH), net), 5 if n > 2000 else 15).items():
                times.setdefault(name, []).append(value)
    return times


def slope(values: list[float]) -> float:
    """The power of n that the last doubling shows."""
    return float(torch.log2(torch.tensor(values[-1] / values[-2])))


def draw(times: dict[str, list[float]], lengths: list[int], path: Path) -> None:
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.add_subplot()
    for (name, values), mark in zip(times.items(), "osd", strict=True):
        axes.loglog(lengths, [1e3 * value for value in values], marker=mark, label=f"{name} (∝ n^{slope(values):.1f})")
    axes.axvline(WIDTH, linestyle=":", color="grey", label=f"n = d = {WIDTH}")
    axes.set_xlabel("sequence length n")
    axes.set_ylabel("milliseconds")
    axes.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--longest", type=int, default=LENGTHS[-1], help="the longest sequence; shorter for a trial")
    parser.add_argument("--docs", type=Path, default=DOCS, help="where the figure goes")
    add_results(parser)
    arguments = parser.parse_args()
    lengths = [n for n in LENGTHS if n <= max(arguments.longest, LENGTHS[1])]
    times = measure(lengths)
    draw(times, lengths, arguments.docs / "images" / "complexity.svg")
    lines = ["| milliseconds at n = | " + " | ".join(map(str, lengths)) + " | grows as |"]
    lines.append("|---|" + "---|" * (len(lengths) + 1))
    for name, values in times.items():
        cells = " | ".join(f"{1e3 * value:.2f}" for value in values)
        lines.append(f"| {name} | {cells} | n^{slope(values):.2f} |")
    table = "\n".join(lines)
    print(table)
    head = f"Width {WIDTH}, one thread, each layer timed alone, `python benchmarks/complexity.py`:"
    put(arguments.results, "Cost over length", f"{head}\n\n{table}")


if __name__ == "__main__":
    main()
