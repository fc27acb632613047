"""Coordinates as numbers and as sines: how long a network takes to learn a picture from either (claim 13)."""

from __future__ import annotations

import io
import json
import math
from statistics import mean
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from regard.pipelines.coordinates import CoordinatesPipeline
from regard.story import Claim, Stage, Told, Verdict
from regard.story.steps._spread import spread
from regard.views.photos import Photo
from regard.views.result import Curves, Result, Table

NUMBER, TITLE = 12, "Places as numbers and as sines"
LECTURE = """
Why are positions given as sines and not as plain numbers? Treat an image as a function from x, y to the colour at that
place, and train a net to be that function. If the position is two real values from 0 to 1, it takes many neurons and
weeks of training. If x and y are represented through random sine functions, it takes seconds to train, with much
better results.
"""
COMMANDS = (
    "regard train recipes/fourier_sines.yaml",
    "regard train recipes/fourier_sines.yaml --out out/fourier_sines_plain --model.options.features plain",
)
SIZE, _UPDATES, _EVERY = 48, 800, 5
PLAIN, SINES = "plain x, y", "sines of x, y"
_FEATURES: dict[str, dict[str, Any]] = {
    PLAIN: {"features": "plain"},
    SINES: {"features": "gaussian", "scale": 5.0, "n_frequencies": 64},
}
_MUCH, _BETTER = 0.01, 3.0

Log = list[tuple[int, float, float]]
"""Updates, seconds and PSNR."""


def run(stage: Stage) -> Told:
    logs, drawn = dict[str, list[Log]](), dict[str, Any]()
    for name, options in _FEATURES.items():
        for seed in stage.seeds:
            model, log = _trained(stage, f"{options['features']}_{seed}", options, seed)
            logs.setdefault(name, []).append(log)
            drawn.setdefault(name, model.values((SIZE, SIZE)).mean(-1))
    best = [max(psnr for _, _, psnr in log) for log in logs[PLAIN]]
    reached = [_first(log, target) for log, target in zip(logs[SINES], best, strict=True)]
    result = Result(
        "story",
        "A picture learnt from plain coordinates and from their sines",
        [_pictures(drawn), _curves("PSNR by updates", "updates", logs, 0),
         _curves("PSNR by seconds", "seconds", logs, 1), _table(logs, reached)],
        [f"{name}: {mean(log[-1][2] for log in runs):.1f} dB after {_UPDATES} updates, "
         f"{mean(log[-1][1] for log in runs):.2g} seconds." for name, runs in logs.items()],
        {"best of plain coordinates": best, "updates and seconds of sines to there": reached},
    )  # fmt: skip
    return Told(result, [_claim(logs, best, reached)], FOLLOWS)


FOLLOWS = """
A net learns slow changes first. Sines of many wavelengths turn places that lie close together into inputs that differ,
and so does a Transformer's position encoding: this is the same idea with words for pixels.
"""


def picture() -> NDArray[np.uint8]:
    """A generated picture [H,W,3]: a smooth ground, a ring, and stripes of three pixels."""
    y, x = (axis / SIZE for axis in np.mgrid[0:SIZE, 0:SIZE])
    ring = np.abs(np.hypot(x - 0.36, y - 0.4) - 0.22) < 0.05
    stripes = ((x + y) * SIZE // 3 % 2 == 0) & (x > 0.6) & (y > 0.45)
    grey = 0.3 + 0.3 * np.sin(2 * x + 3 * y)
    channels = [
        np.where(ring, 0.95, np.where(stripes, low, grey * dim)) for low, dim in ((0.9, 1), (0.2, 0.9), (0.1, 0.6))
    ]
    return np.asarray(255 * np.stack(channels, -1)).round().astype(np.uint8)


def _trained(stage: Stage, folder: str, options: dict[str, Any], seed: int) -> tuple[CoordinatesPipeline, Log]:
    file = io.BytesIO()
    Image.fromarray(picture()).save(file, "PNG")
    recipe = {
        "task": "coordinates",
        "data": {"picture": stage.write_bytes("picture.png", file.getvalue()), "size": SIZE, "every": 1},
        "model": {"name": "fourier", "size": "small", "options": options},
        "training": {"max_steps": _UPDATES, "lr": 1e-3, "log_every": _EVERY, "checkpoint_every": 10_000, "seed": seed},
    }
    model, log, seconds = stage.train(folder, recipe), Log(), 0.0
    assert isinstance(model, CoordinatesPipeline)
    for line in (stage.folder / folder / "log.jsonl").read_text(encoding="utf-8").splitlines():
        facts = json.loads(line)
        if "loss" in facts:
            seconds += _EVERY * SIZE**2 / facts["points_per_second"]
            log.append((facts["step"], seconds, -10 * math.log10(facts["loss"])))
    return model, log


def _first(log: Log, target: float) -> tuple[int, float] | None:
    """Updates and seconds to this PSNR; None if it was not reached."""
    return next(((step, seconds) for step, seconds, psnr in log if psnr >= target), None)


def _pictures(drawn: dict[str, Any]) -> Photo:
    white = np.full((4 * SIZE, 4 * SIZE, 3), 255, np.uint8)
    shown = {"the picture": picture().mean(-1) / 255, **drawn}
    note = f"in grey; {_UPDATES} updates of the same net on the same {SIZE} × {SIZE} pixels"
    return Photo("What was learnt", white, list(shown), [values.tolist() for values in shown.values()], note)


def _curves(name: str, axis: str, logs: dict[str, list[Log]], which: int) -> Curves:
    series = {
        kind: [(float(mean(point[which] for point in row)), mean(point[2] for point in row))
               for row in zip(*runs, strict=True)]
        for kind, runs in logs.items()
    }  # fmt: skip
    return Curves(name, axis, "PSNR in dB, mean of the seeds", series, log_x=True)


def _table(logs: dict[str, list[Log]], reached: list[tuple[int, float] | None]) -> Table:
    rows: list[list[str | float | int | None]] = []
    for name, runs in logs.items():
        last = [log[-1] for log in runs]
        to_best = [_first(log, max(psnr for *_, psnr in log)) for log in runs] if name == PLAIN else reached
        numbers: list[float | None] = [None] * 4
        if None not in to_best:
            parts = zip(*(pair for pair in to_best if pair is not None), strict=True)
            numbers = [number for part in parts for number in (mean(part), spread(part))]
        rows.append([name, mean(psnr for *_, psnr in last), spread([psnr for *_, psnr in last]), *numbers])
    columns = ["input", "PSNR at the end", "± PSNR", "updates", "± updates", "seconds", "± seconds"]
    return Table("How long it takes", columns, rows, "updates and seconds to the best PSNR of the plain coordinates")


def _claim(logs: dict[str, list[Log]], best: list[float], reached: list[tuple[int, float] | None]) -> Claim:
    """It holds if sines need at most 1 % of the updates and of the seconds to the PSNR that plain coordinates have at
    best, and end 3 dB above it; in part if they need less of both with every seed."""
    says = "Two real values for a position: weeks of training; random sine functions: seconds, and much better results."
    gain = mean(log[-1][2] for log in logs[SINES]) - mean(best)
    rule = "Rule: 1 % of both or less, and 3 dB more at the end; in part: less of both with every seed."
    pairs = [pair for pair in reached if pair is not None]
    if len(pairs) < len(reached):
        return Claim(says, "does not hold here", f"Sines did not reach the {mean(best):.1f} dB of the other. {rule}")
    spent = [_first(log, target) or (0, 0.0) for log, target in zip(logs[PLAIN], best, strict=True)]
    shares = [mean(mine[which] / other[which] for mine, other in zip(pairs, spent, strict=True)) for which in (0, 1)]
    less = all(mine[which] < other[which] for mine, other in zip(pairs, spent, strict=True) for which in (0, 1))
    holds = max(shares) <= _MUCH and gain >= _BETTER
    verdict: Verdict = "holds" if holds else "holds in part" if less else "does not hold here"
    return Claim(
        says,
        verdict,
        f"Plain coordinates come to {mean(best):.1f} dB in {mean(step for step, _ in spent):.0f} of {_UPDATES} updates "
        f"({mean(seconds for _, seconds in spent):.2g} s); sines are there after {mean(step for step, _ in pairs):.0f} "
        f"({mean(seconds for _, seconds in pairs):.2g} s), {shares[0]:.1%} of the updates and {shares[1]:.1%} of the "
        f"seconds, and end {gain:.1f} dB above. {rule}",
    )
