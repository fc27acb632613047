"""Time per token of a recurrent net, of one with a tape, and of a Transformer encoder, over the length of the text.

    python benchmarks/growth.py          writes docs/images/growth.svg and a table to benchmarks/RESULTS.md

Whole models of one width read one text: `rnn` (LSTM, two layers), `lstmn` (one layer) with a tape as long as the text
and with one of 64 states, `encoder` (two layers, 4 heads). One thread, float32, no gradients; medians of a few runs,
each model after one run that warms up. An LSTM's step costs the same wherever it stands, so its time per token is flat.
A step of the LSTMN looks at every state on its tape: O(n) a step, until `span` bounds it. Each token of the encoder
looks at all others: O(n) a token too, but in one product.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from statistics import median

import torch
from _results import add_results, put
from matplotlib.figure import Figure
from torch import nn

from regard.models import config_of, make_model
from regard.runtime.limits import cpu

WIDTH, WORDS = 128, 1000
LENGTHS = (64, 128, 256, 512, 1024, 2048, 4096)
DOCS = Path(__file__).parents[1] / "docs"


def models(longest: int) -> dict[str, nn.Module]:
    """What is timed, by name."""
    recurrent = {"vocab_size": WORDS, "d_embedding": WIDTH, "d_hidden": WIDTH, "head": "classes", "max_len": longest}
    wide = {"vocab_size": WORDS, "d_model": WIDTH, "n_heads": 4, "d_ff": 4 * WIDTH, "n_layers": 2, "max_len": longest}
    chosen = {
        "rnn (LSTM)": ("rnn", {**recurrent, "n_layers": 2}),
        "lstmn, the whole text on its tape": ("lstmn", {**recurrent, "span": longest}),
        "lstmn, span 64": ("lstmn", {**recurrent, "span": 64}),
        "encoder": ("encoder", wide),
    }
    return {label: make_model(name, config_of(name, options)).eval() for label, (name, options) in chosen.items()}


def seconds(model: nn.Module, ids: torch.Tensor, repeats: int) -> float:
    """The median time of a run; the first warms up."""
    times = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        model(ids)
        times.append(time.perf_counter() - start)
    return median(times[1:])


def measure(lengths: list[int]) -> dict[str, list[float]]:
    """Microseconds per token of each model, by length."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    times: dict[str, list[float]] = {}
    with torch.inference_mode():
        for label, model in models(lengths[-1]).items():
            for n in lengths:
                ids = torch.randint(4, WORDS, (1, n))
                times.setdefault(label, []).append(1e6 * seconds(model, ids, 1 if n > 1000 else 3) / n)
    return times


def slope(values: list[float]) -> float:
    """The power of n that the last doubling shows."""
    return float(torch.log2(torch.tensor(values[-1] / values[-2])))


def draw(times: dict[str, list[float]], lengths: list[int], path: Path) -> None:
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.add_subplot()
    for (name, values), mark in zip(times.items(), "osd^", strict=True):
        axes.loglog(lengths, values, marker=mark, label=f"{name} (∝ n^{slope(values):.1f})")
    axes.set_xlabel("length of the text n")
    axes.set_ylabel("microseconds per token")
    axes.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--longest", type=int, default=LENGTHS[-1], help="the longest text; shorter for a trial")
    parser.add_argument("--docs", type=Path, default=DOCS, help="where the figure goes")
    add_results(parser)
    arguments = parser.parse_args()
    lengths = [n for n in LENGTHS if n <= max(arguments.longest, LENGTHS[1])]
    times = measure(lengths)
    draw(times, lengths, arguments.docs / "images" / "growth.svg")
    lines = ["| microseconds per token at n = | " + " | ".join(map(str, lengths)) + " | grows as |"]
    lines.append("|---|" + "---|" * (len(lengths) + 1))
    for name, values in times.items():
        cells = " | ".join(f"{value:.0f}" for value in values)
        lines.append(f"| {name} | {cells} | n^{slope(values):.2f} |")
    table = "\n".join(lines)
    print(table)
    head = f"Width {WIDTH}, {cpu()}, one thread, no gradients, one text at a time, `python benchmarks/growth.py`:"
    put(arguments.results, "Time per token over length", f"{head}\n\n{table}")


if __name__ == "__main__":
    main()
