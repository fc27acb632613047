"""Measured speeds as a result that the terminal, a page and a picture can show."""

from __future__ import annotations

from regard.evaluation.speed import NAMES, Speed, Speeds, Work
from regard.views.result import Curves, Result, Table

_NOTE = (
    "tokens/s: the median round; ±: half of the distance between the slowest and the fastest. The limit counts "
    "the weights of a step, read once and multiplied with every row; attention and the reading of a source come on "
    "top. A model that fits into the CPU's cache can exceed it."
)


def view(speeds: Speeds, *, curves: bool = True) -> Result:
    """Sentences, a table, and curves over the number of inputs, which say little in a terminal."""
    searches = sorted({speed.work.beam for speed in speeds.speeds})
    return Result(
        method="bench",
        title=f"Speed of generation: {speeds.model}",
        panels=[*(_curves(speeds, beam) for beam in searches if curves), _table(speeds)],
        statements=_statements(speeds),
        data=speeds.as_dict(),
    )


def _statements(speeds: Speeds) -> list[str]:
    limits, torch = speeds.limits, speeds.torch.split("+")[0]
    work = f"{_count(speeds.n_input, 'token')} in, {_count(speeds.n_tokens, 'token')} out"
    said = [
        f"On {_where(speeds)}, torch {torch}: {work}, {_count(speeds.rounds, 'round')}.",
        f"auto runs {speeds.auto.engine} here: {_why(speeds)}.",
    ]
    reasons: dict[str, list[str]] = {}
    for engine, reason in speeds.missing.items():
        reasons.setdefault(reason, []).append(engine)
    said += [f"{' and '.join(names)} cannot run here: {reason}." for reason, names in reasons.items()]
    low = f", {limits.bfloat16.giga:,.0f} in bfloat16" if limits.bfloat16 else ""
    int8 = f", {limits.int8.giga:,.0f} billion a second in int8" if limits.int8 else ""
    said.append(
        f"This machine reads {limits.read.giga:.1f} GB/s ({limits.read.by}) and computes {limits.float32.giga:,.0f} "
        f"GFLOP/s in float32 ({limits.float32.by}){low}{int8}."
    )
    return said + [_reached(speeds, speed) for speed in speeds.speeds if speed.work == Work(1, 1) and speed.limit]


def _why(speeds: Speeds) -> str:
    if speeds.auto.reason is not None:
        return speeds.auto.reason
    if speeds.auto.engine == "float32":
        return (
            "its kernels are compiled, and it gives the same tokens as plain; bfloat16 and int8 run only when asked for"
        )
    return "it suits this model and this machine"


def _reached(speeds: Speeds, speed: Speed) -> str:
    megabytes = speeds.step_bytes[speed.engine] / 1e6
    return (
        f"{speed.engine}: a step reads {megabytes:,.1f} MB of weights, so that one input can have {speed.limit:,.0f} "
        f"tokens/s at most; it has {speed.median:,.0f}, {100 * (speed.share or 0):.0f} % of that."
    )


def _curves(speeds: Speeds, beam: int) -> Curves:
    chosen = [speed for speed in speeds.speeds if speed.work.beam == beam]
    lines: dict[str, list[tuple[float, float]]] = {}
    bands: dict[str, list[tuple[float, float, float]]] = {}
    for engine in NAMES:
        own = [speed for speed in chosen if speed.engine == engine]
        if own:
            lines[engine] = [(speed.work.batch, speed.median) for speed in own]
            bands[engine] = [(speed.work.batch, speed.low, speed.high) for speed in own]
    for precision in ("float32", "bfloat16", "int8"):
        engine = "plain" if precision == "float32" else precision
        limit = [(s.work.batch, s.limit) for s in chosen if s.engine == engine and s.limit is not None]
        if limit:
            lines[f"limit, {precision}"] = [(float(batch), value) for batch, value in limit]
    return Curves(
        name="Greedy search" if beam == 1 else f"Beam {beam}",
        x="inputs at once",
        y="tokens per second",
        series=lines,
        bands=bands,
        log_x=True,
        log_y=True,
    )


def _table(speeds: Speeds) -> Table:
    plain = {speed.work: speed.median for speed in speeds.speeds if speed.engine == "plain"}
    rows: list[list[str | float | int | None]] = [
        [
            str(speed.work),
            speed.engine,
            _rounded(speed.median),
            round(50 * (speed.high - speed.low) / speed.median, 1),
            round(speed.median / plain[speed.work], 2),
            _rounded(speed.limit),
            None if speed.share is None else round(100 * speed.share, 1),
        ]
        for speed in speeds.speeds
    ]
    columns = ["work", "engine", "tokens/s", "± %", "times plain", "limit", "% of limit"]
    return Table(f"Tokens per second on {_where(speeds)}", columns, rows, note=_NOTE)


def _where(speeds: Speeds) -> str:
    return f"{speeds.cpu} with {_count(speeds.threads, 'thread')}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


def _rounded(value: float | None) -> float | int | None:
    """Whole numbers from 100 on."""
    return None if value is None else round(value) if value >= 100 else round(value, 1)
