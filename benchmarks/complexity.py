"""Self-attention costs n²·d, a recurrent layer n·d²: measured over n, drawn, with the place where they cross.

    python benchmarks/complexity.py          writes docs/images/complexity.svg and a table to benchmarks/RESULTS.md

Both layers read [1, n, d] and write the same shape; the attention is the explicit stages (so that the n × n matrix
really is made) and the fused kernel, one head each, without projections; the recurrent layer is an Elman net. One
thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import torch
from matplotlib.figure import Figure

import regard
from regard.layers.recurrent import Recurrent

WIDTH = 256
LENGTHS = (64, 128, 256, 512, 1024, 2048, 4096, 8192)


def seconds(calls: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Medians, in turns."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds + 1):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - start)
    return {name: median(found[1:]) for name, found in times.items()}


def measure() -> dict[str, list[float]]:
    torch.set_num_threads(1)
    net = Recurrent("elman", WIDTH, WIDTH)
    found: dict[str, list[float]] = {}
    with torch.no_grad():
        for n in LENGTHS:
            x = torch.randn(1, n, WIDTH)
            calls: dict[str, Callable[[], object]] = {
                "self-attention, stage by stage": lambda x=x: regard.attend(x, x, x).weights @ x,
                "self-attention, fused": lambda x=x: regard.attend(x[:, None], x[:, None], x[:, None]).context,
                "recurrent (Elman)": lambda x=x: net(x),
            }
            for name, value in seconds(calls, 5 if n > 2000 else 15).items():
                found.setdefault(name, []).append(value)
    return found


def slope(values: list[float]) -> float:
    """The power of n that the last doubling shows."""
    return float(torch.log2(torch.tensor(values[-1] / values[-2])))


def draw(found: dict[str, list[float]], path: Path) -> None:
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.add_subplot()
    for (name, values), mark in zip(found.items(), "osd", strict=True):
        axes.loglog(LENGTHS, [1e3 * value for value in values], marker=mark, label=f"{name} (∝ n^{slope(values):.1f})")
    axes.axvline(WIDTH, linestyle=":", color="grey", label=f"n = d = {WIDTH}")
    axes.set_xlabel("sequence length n")
    axes.set_ylabel("milliseconds")
    axes.legend()
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    found = measure()
    root = Path(__file__).parents[1]
    (root / "docs" / "images").mkdir(exist_ok=True)
    draw(found, root / "docs" / "images" / "complexity.svg")
    lines = ["| milliseconds at n = | " + " | ".join(map(str, LENGTHS)) + " | grows as |"]
    lines.append("|---|" + "---|" * (len(LENGTHS) + 1))
    for name, values in found.items():
        cells = " | ".join(f"{1e3 * value:.2f}" for value in values)
        lines.append(f"| {name} | {cells} | n^{slope(values):.2f} |")
    table = "\n".join(lines)
    print(table)
    results = root / "benchmarks" / "RESULTS.md"
    head = f"## Cost over length\n\nWidth {WIDTH}, one thread, `python benchmarks/complexity.py`:\n\n"
    parts = results.read_text().split("\n## ") if results.exists() else ["# Results\n"]
    kept = [part for part in parts if not part.startswith("Cost over length")]
    results.write_text("\n## ".join(kept).rstrip("\n") + "\n\n" + head + table + "\n")


if __name__ == "__main__":
    main()
