"""What the attention core costs beside torch's own: ratios, measured in turns within one run.

    python benchmarks/attention.py [--quick]

Each row times two ways of the same work alternately, so that a slow moment hits both, and takes medians. Run it alone:
a second busy process makes torch several times slower. The table goes to benchmarks/RESULTS.md.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import torch
from torch.nn import functional

import regard
from regard.core.fast_dropout import drop

Call = Callable[[], object]


def in_turns(ours: Call, theirs: Call, rounds: int) -> tuple[float, float]:
    """Median seconds of each, called alternately after a warm-up."""
    times: tuple[list[float], list[float]] = ([], [])
    for turn in range(rounds + 3):
        for call, kept in zip((ours, theirs), times, strict=True):
            start = time.perf_counter()
            call()
            if turn >= 3:
                kept.append(time.perf_counter() - start)
    return median(times[0]), median(times[1])


def heads(n: int, *, grad: bool = False, batch: int = 1, n_heads: int = 8, width: int = 64) -> list[torch.Tensor]:
    return [torch.randn(batch, n_heads, n, width, requires_grad=grad) for _ in range(3)]


def backward(call: Callable[[], torch.Tensor], leaves: list[torch.Tensor]) -> Call:
    def run() -> None:
        torch.autograd.grad(call().sum(), leaves)

    return run


def overhead(n: int, rounds: int, *, batch: int = 1) -> tuple[float, float]:
    q, k, v = heads(n, batch=batch)
    return in_turns(
        lambda: regard.attend(q, k, v).context, lambda: functional.scaled_dot_product_attention(q, k, v), rounds
    )


def windowed(n: int, width: int, rounds: int, *, train: bool) -> tuple[float, float]:
    q, k, v = heads(n, grad=train, n_heads=4)
    local, full = regard.window(width - 1, 0), regard.window(width - 1, 0).dense(n, n)

    def ours() -> torch.Tensor:
        return regard.attend(q, k, v, mask=local).context

    def theirs() -> torch.Tensor:
        return functional.scaled_dot_product_attention(q, k, v, attn_mask=full)

    return in_turns(backward(ours, [q, k, v]), backward(theirs, [q, k, v]), rounds) if train else in_turns(
        ours, theirs, rounds
    )  # fmt: skip


def dropout(shape: tuple[int, ...], rounds: int, *, train: bool) -> tuple[float, float]:
    x = torch.randn(shape, requires_grad=train)
    ours, theirs = (lambda: drop(x, 0.1)), (lambda: functional.dropout(x, 0.1))
    return in_turns(backward(ours, [x]), backward(theirs, [x]), rounds) if train else in_turns(ours, theirs, rounds)


def watched(n: int, rounds: int) -> tuple[float, float]:
    q, k, v = heads(n)

    def ours() -> None:
        with regard.watch() as record:
            regard.attend(q, k, v)
        assert len(record) == 1

    def theirs() -> torch.Tensor:
        weights = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]), -1)
        return weights @ v

    return in_turns(ours, theirs, rounds)


MEMORY = """
import torch, regard
def kibibytes(field):
    return int(next(line for line in open("/proc/self/status") if line.startswith(field)).split()[1])
q, k, v = (torch.randn(1, 4, {n}, 64, requires_grad=True) for _ in range(3))
regard.attend(q[:, :, :8], k[:, :, :8], v[:, :, :8]).context.sum().backward()
open("/proc/self/clear_refs", "w").write("5")  # forget the peak that importing torch left
before = kibibytes("VmRSS")
regard.attend(q, k, v, mask={mask}, chooser={chooser!r}).context.sum().backward()
print((kibibytes("VmHWM") - before) / 1024)
"""


def peak_mebibytes(n: int, mask: str, chooser: str = "softmax") -> float:
    code = MEMORY.format(n=n, mask=mask, chooser=chooser)
    return float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)


def rows(quick: bool) -> list[str]:
    few, many = (5, 20) if quick else (15, 200)
    lines = ["| what | regard | torch | ratio |", "|---|---|---|---|"]

    def add(what: str, pair: tuple[float, float], *, faster: bool = False) -> None:
        ours, theirs = pair
        ratio = f"{theirs / ours:.1f}× faster" if faster else f"{ours / theirs:.3f}× the time"
        lines.append(f"| {what} | {ours * 1e3:.3f} ms | {theirs * 1e3:.3f} ms | {ratio} |")
        print(lines[-1], flush=True)

    add("attend, n = 512, 8 heads of 64, against the fused kernel alone", overhead(512, many))
    add("the same, batch of 8", overhead(512, few * 2, batch=8))
    add(
        "window of 128, n = 8192, 4 heads of 64, against a full mask",
        windowed(8192, 128, few, train=False),
        faster=True,
    )
    add("the same, forward and backward", windowed(8192, 128, few, train=True), faster=True)
    add("watched (weights recorded), n = 512, against plain matmul and softmax", watched(512, few * 2))
    add("dropout 0.1 of [4096, 512], forward", dropout((4096, 512), few * 2, train=False), faster=True)
    add("the same, forward and backward", dropout((4096, 512), few * 2, train=True), faster=True)
    add(
        "dropout 0.1 of weights [64, 4, 32, 32], forward and backward",
        dropout((64, 4, 32, 32), many, train=True),
        faster=True,
    )
    lines += ["", "Peak memory above the inputs, forward and backward, 4 heads of 64 (MiB):", ""]
    sizes = (1024, 4096) if quick else (1024, 4096, 16384)
    lines += ["| path | " + " | ".join(f"n = {n}" for n in sizes) + " |", "|---|" + "---|" * len(sizes)]
    for name, mask, chooser, most in (
        ("causal, fused", "regard.causal()", "softmax", 16384),
        ("window of 128, blocks", "regard.window(127, 0)", "softmax", 16384),
        ("window of 128, blocks, sparsemax", "regard.window(127, 0)", "sparsemax", 16384),
        ("causal, stage by stage (sparsemax)", "regard.causal()", "sparsemax", 4096),
    ):
        cells = [f"{peak_mebibytes(n, mask, chooser):.0f}" if n <= most else "–" for n in sizes]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
        print(lines[-1], flush=True)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds, nothing written")
    quick = parser.parse_args().quick
    torch.manual_seed(0)
    table = "\n".join(rows(quick))
    if not quick:
        head = f"# Measured on {torch.get_num_threads()} CPU threads, torch {torch.__version__}\n\n"
        note = "`make bench` writes this page: medians of runs in turns. Ratios travel between machines, times do not."
        Path(__file__).with_name("RESULTS.md").write_text(head + note + "\n\n## Attention core\n\n" + table + "\n")


if __name__ == "__main__":
    main()
