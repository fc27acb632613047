"""The learning rate as a function of the update's number (from 1): no state, so nothing to resume.

warm-up         rises in a straight line over `warmup` updates
inverse_sqrt    then lr · √(warmup / step)       (Vaswani et al. 2017, in terms of the peak)
cosine          then lr · (1 + cos(π · progress)) / 2
linear          then lr · (1 − progress)
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
    progress = min(max(step - warmup, 0) / max(total - warmup, 1), 1.0)
    return peak * (1 - progress) if kind == "linear" else peak * (1 + math.cos(math.pi * progress)) / 2
