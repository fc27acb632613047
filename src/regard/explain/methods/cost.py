"""The cost of attention and recurrence over the length n: measured seconds and memory, and where they cross.

In multiplications, self-attention costs n²·d and a recurrent layer n·d² (Vaswani et al. 2017, table 1): equal at n = d.
Five layers that map [1, n, d] to the same shape are measured:

    explicit attention      softmax(x xᵀ / √d) x, with the n × n matrix in memory
    fused attention         the same by torch's kernel, which never holds that matrix
    elman, gru, lstm        torch's recurrent networks of width d

There is one head and there are no projections, which cost n·d² in every kind of layer and would only hide the
differences. Each time is the median of repeats that alternate between the layers, so that a busy moment of the machine
affects all of them. On a CPU torch runs the LSTM in one library call (oneDNN) and the other two step by step, and the
times show it. Memory is the largest number of bytes that torch held at one time during a call, from its profiler's
record of allocations; the input and the weights existed before and are not counted. Two counts show what time on one
machine does not: how many operations must run one after another, and how many lie between two positions (`chains`).
"""

from __future__ import annotations

import json
import math
import os
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from statistics import median

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from torch.profiler import ProfilerActivity, profile, record_function

from regard.core.errors import UsageError
from regard.explain.chains import chain_lengths, chain_statement, chain_table, usual_layers
from regard.views.result import Curves, Result, Table

LOOKS_AT = None

EXPLICIT, FUSED = "explicit attention", "fused attention"
_RECURRENT: dict[str, Callable[..., nn.RNNBase]] = {"elman": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}
_FIRST = 16
_MARK = "regard cost "
_CHAINS = [16, 32, 64, 128]
_ENOUGH, _MOST_IN_A_ROW = 2e-3, 20

Calls = dict[tuple[str, int], Callable[[], object]]


def cost(
    *,
    d_model: int = 64,
    longest: int = 1024,
    repeats: int = 9,
    backward: bool = False,
    threads: int = 1,
    seed: int = 0,
) -> Result:
    """Seconds and bytes of self-attention and of recurrent layers at n = 16, 32, … `longest`; no model is needed.

    `backward` adds the gradients of the input and the weights to each call.
    """
    _check(d_model, longest, repeats, threads)
    lengths = [_FIRST * 2**i for i in range(int(math.log2(longest / _FIRST)) + 1)]
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with nullcontext() if backward else torch.no_grad():
            calls = _calls(d_model, lengths, backward, seed)
            seconds = _seconds(calls, repeats)
            peaks = _peaks(calls)
    finally:
        torch.set_num_threads(before)
    names = [EXPLICIT, FUSED, *_RECURRENT]
    times = {name: [seconds[name, n] for n in lengths] for name in names}
    memory = {name: [peaks[name, n] for n in lengths] for name in names}
    powers = {name: {"time": power(lengths, times[name]), "memory": power(lengths, memory[name])} for name in names}
    crossings = {
        f"{attention} / {recurrent}": crossing(lengths, times[attention], times[recurrent])
        for attention in (EXPLICIT, FUSED)
        for recurrent in _RECURRENT
    }
    chains = {
        name: [chain_lengths(layer, n, d_model) for n in _CHAINS] for name, layer in usual_layers(d_model).items()
    }
    what = "forward and backward" if backward else "forward"
    return Result(
        method="cost",
        title=f"The cost of attention and recurrence over length ({what}, d = {d_model})",
        panels=[
            _curves("Time", "milliseconds", lengths, times, 1e3),
            _curves("Memory", "kilobytes", lengths, memory, 1e-3),
            _table(lengths, times, memory, powers),
            chain_table(_CHAINS, chains),
        ],
        statements=[*_statements(d_model, lengths, powers, crossings, memory), chain_statement(_CHAINS, chains)],
        data={
            "d_model": d_model,
            "lengths": lengths,
            "seconds": times,
            "bytes": memory,
            "exponents": powers,
            "predicted_crossing": d_model,
            "measured_crossings": crossings,
            "chains": {
                "lengths": _CHAINS,
                "steps": {name: [longest for longest, _ in ways] for name, ways in chains.items()},
                "path": {name: [shortest for _, shortest in ways] for name, ways in chains.items()},
            },
            "backward": backward,
            "threads": threads,
            "repeats": repeats,
        },
    )


def power(lengths: list[int], values: list[float]) -> float:
    """The exponent of n by least squares in logarithms, over the upper half of the lengths: for shorter inputs the
    overhead of a call dominates."""
    start = min(len(lengths) // 2, len(lengths) - 2)
    x = [math.log(n) for n in lengths[start:]]
    y = [math.log(value) for value in values[start:]]
    middle_x, middle_y = sum(x) / len(x), sum(y) / len(y)
    spread = sum((log_n - middle_x) ** 2 for log_n in x)
    return sum((log_n - middle_x) * (log_value - middle_y) for log_n, log_value in zip(x, y, strict=True)) / spread


def crossing(lengths: list[int], rising: list[float], other: list[float]) -> float | None:
    """The n from which `rising` stays above `other`, interpolated linearly in logarithms between measured lengths; None
    if it never does."""
    gap = [math.log(above / below) for above, below in zip(rising, other, strict=True)]
    if gap[-1] <= 0:
        return None
    last = max((i for i, value in enumerate(gap) if value <= 0), default=None)
    if last is None:
        return float(lengths[0])
    share = -gap[last] / (gap[last + 1] - gap[last])
    return math.exp((1 - share) * math.log(lengths[last]) + share * math.log(lengths[last + 1]))


def _check(d_model: int, longest: int, repeats: int, threads: int) -> None:
    if d_model < 1 or repeats < 1 or threads < 1:
        raise UsageError(
            "sizes must be positive", got=f"d_model {d_model}, repeats {repeats}, threads {threads}", expected="1 up"
        )
    if longest < 4 * _FIRST:
        raise UsageError(
            "too short to measure how the cost grows",
            got=f"longest {longest}",
            expected=f"at least {4 * _FIRST}",
            remedy="Give a larger longest.",
        )


def _calls(d_model: int, lengths: list[int], backward: bool, seed: int) -> Calls:
    generator = torch.Generator().manual_seed(seed)
    layers: dict[str, Callable[[Tensor], Tensor]] = {EXPLICIT: _explicit, FUSED: _fused}
    for name, kind in _RECURRENT.items():
        layers[name] = _outputs(kind(d_model, d_model, batch_first=True))
    calls: Calls = {}
    for n in lengths:
        x = torch.randn(1, n, d_model, generator=generator).requires_grad_(backward)
        for name, layer in layers.items():
            calls[name, n] = _call(layer, x, backward)
    return calls


def _explicit(x_BTD: Tensor) -> Tensor:
    scores_BTT = x_BTD @ x_BTD.transpose(1, 2) / math.sqrt(x_BTD.shape[-1])
    return scores_BTT.softmax(-1) @ x_BTD


def _fused(x_BTD: Tensor) -> Tensor:
    x_BHTD = x_BTD[:, None]
    return scaled_dot_product_attention(x_BHTD, x_BHTD, x_BHTD)[:, 0]


def _outputs(net: nn.RNNBase) -> Callable[[Tensor], Tensor]:
    return lambda x_BTD: net(x_BTD)[0]


def _call(layer: Callable[[Tensor], Tensor], x: Tensor, backward: bool) -> Callable[[], object]:
    def run() -> None:
        out = layer(x)
        if backward:
            out.sum().backward()
            x.grad = None

    return run


def _seconds(calls: Calls, repeats: int) -> dict[tuple[str, int], float]:
    """Medians. Short calls are repeated in a row, so that clock resolution and cold caches do not matter."""
    rows = {name: max(1, min(_MOST_IN_A_ROW, int(_ENOUGH / _timed(call, 1)))) for name, call in calls.items()}
    times: dict[tuple[str, int], list[float]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            times[name].append(_timed(call, rows[name]))
    return {name: median(seconds) for name, seconds in times.items()}


def _timed(call: Callable[[], object], times: int) -> float:
    call()
    start = time.perf_counter()
    for _ in range(times):
        call()
    return (time.perf_counter() - start) / times


def _peaks(calls: Calls) -> dict[tuple[str, int], float]:
    """The largest number of bytes held at one time in each call, from the profiler's record of allocations."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the profiler announces itself on the terminal otherwise
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        for (name, n), call in calls.items():
            with record_function(f"{_MARK}{n} {name}"):
                call()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "profile.json"
        profiler.export_chrome_trace(str(path))
        events = json.loads(path.read_text())["traceEvents"]
    spans = {event["name"]: event for event in events if str(event.get("name", "")).startswith(_MARK)}
    blocks = sorted((event["ts"], event["args"]["Bytes"]) for event in events if event.get("name") == "[memory]")
    peaks = {}
    for name, n in calls:
        span = spans[f"{_MARK}{n} {name}"]
        held = most = 0
        for ts, size in blocks:
            if span["ts"] <= ts <= span["ts"] + span["dur"]:
                held += size
                most = max(most, held)
        peaks[name, n] = float(most)
    return peaks


def _curves(name: str, unit: str, lengths: list[int], values: dict[str, list[float]], factor: float) -> Curves:
    series = {
        layer: [(float(n), factor * value) for n, value in zip(lengths, measurements, strict=True)]
        for layer, measurements in values.items()
    }
    return Curves(name, x="sequence length n", y=unit, series=series, log_x=True, log_y=True)


def _table(
    lengths: list[int],
    times: dict[str, list[float]],
    memory: dict[str, list[float]],
    powers: dict[str, dict[str, float]],
) -> Table:
    shown = [lengths[0], lengths[-1]]
    columns = ["layer", *(f"ms at {n}" for n in shown), "time", *(f"kB at {n}" for n in shown)]
    rows: list[list[str | float | int | None]] = []
    for name in times:
        at = [lengths.index(n) for n in shown]
        row: list[str | float | int | None] = [name, *(round(1e3 * times[name][i], 4) for i in at)]
        row += [f"n^{powers[name]['time']:.2f}", *(round(memory[name][i] / 1e3, 1) for i in at)]
        rows.append([*row, f"n^{powers[name]['memory']:.2f}"])
    return Table("Cost", [*columns, "memory"], rows, note="n^…: the power of n with which it grows")


def _statements(
    d_model: int,
    lengths: list[int],
    powers: dict[str, dict[str, float]],
    crossings: dict[str, float | None],
    memory: dict[str, list[float]],
) -> list[str]:
    grows = "; ".join(f"{name} n^{exponents['time']:.2f}" for name, exponents in powers.items())
    statements = [
        f"Counted in multiplications, n²·d of attention and n·d² of recurrence are equal at n = d = {d_model}.",
        f"Measured time grows as: {grows} (fitted from n = {lengths[min(len(lengths) // 2, len(lengths) - 2)]} on).",
    ]
    for pair, n in crossings.items():
        attention, recurrent = pair.split(" / ")
        if n is None:
            statements.append(f"{attention.capitalize()} is still faster than {recurrent} at n = {lengths[-1]}.")
        elif n <= lengths[0]:
            statements.append(f"{attention.capitalize()} is slower than {recurrent} from n = {lengths[0]} on.")
        else:
            statements.append(f"{attention.capitalize()} becomes slower than {recurrent} at n ≈ {n:.0f}.")
    explicit, fused = memory[EXPLICIT], memory[FUSED]
    statements.append(
        f"Memory of explicit attention grows as n^{powers[EXPLICIT]['memory']:.2f}, of fused attention as "
        f"n^{powers[FUSED]['memory']:.2f}: {explicit[-1] / fused[-1]:.0f} times less at n = {lengths[-1]}."
    )
    return statements
