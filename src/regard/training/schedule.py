"""The learning rate as a function of the update's number (from 1); there is no state to resume.

warm-up         rises linearly over `warmup` updates
inverse_sqrt    then lr · √(warmup / step)       (Vaswani et al. 2017, in terms of the peak)
cosine          then lr · (1 + cos(π · progress)) / 2
linear          then lr · (1 − progress)

`progress` goes from 0 at the end of the warm-up to 1 one update after the last, so that every update trains.
"""

from __future__ import annotations

import math


def learning_rate(kind: str, step: int, *, peak: float, warmup: int, total: int | None) -> float:
    if step < warmup:
        return peak * step / warmup
    if kind == "inverse_sqrt":
        return peak * math.sqrt(max(warmup, 1) / max(step, 1))
    if kind == "constant" or total is None:
        return peak
    # The total may be an estimate; updates past it keep the last learning rate.
    progress = (min(step, total) - warmup) / (total - warmup + 1) if total > warmup else 0.0
    return peak * (1 - progress) if kind == "linear" else peak * (1 + math.cos(math.pi * progress)) / 2
