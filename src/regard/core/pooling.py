"""One vector for a text from the states of its tokens: their mean, the first state, or the maximum of each feature."""

from __future__ import annotations

from typing import Literal

from jaxtyping import Float
from torch import Tensor

Pooling = Literal["mean", "first", "max"]


def pool(hidden: Float[Tensor, "B T D"], mask: Tensor | None, how: Pooling | None = None) -> Float[Tensor, "B D"]:
    """Pool the states; padding (False or 0 in the mask) is ignored. The default is the mean."""
    if how == "first":
        return hidden[:, 0]
    if mask is None:
        return hidden.amax(1) if how == "max" else hidden.mean(1)
    real = mask.to(hidden.dtype).unsqueeze(-1)
    if how == "max":
        return hidden.masked_fill(real == 0, -1e9).amax(1)
    return (hidden * real).sum(1) / real.sum(1).clamp_min(1e-9)
