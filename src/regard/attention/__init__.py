"""The attention mechanism: one operation with replaceable stages, and the pieces for these stages."""

from regard.attention.attend import Attended, attend
from regard.attention.choosers import make_chooser
from regard.attention.masks import Gaussian, Mask, around, causal, padding, window
from regard.attention.scores import make_score

__all__ = [
    "Attended",
    "Gaussian",
    "Mask",
    "around",
    "attend",
    "causal",
    "make_chooser",
    "make_score",
    "padding",
    "window",
]
