"""Training that has left the numbers: it stops, and nothing that is not a number is stored."""

from __future__ import annotations

import math

from torch import nn

from regard.core.errors import RegardError

_REMEDY = "Lower training.lr, lengthen training.warmup or set training.clip, with another --out."


class Diverged(RegardError):
    """The loss, the gradient or a weight is no longer a number."""


def check_number(what: str, value: float, step: int) -> None:
    """The loss or the norm of the gradient, before the update is made with it."""
    if not math.isfinite(value):
        raise Diverged(f"the {what} is {value} at update {step}", remedy=f"Nothing was updated with it. {_REMEDY}")


def check_weights(model: nn.Module, step: int) -> None:
    """The weights after an update, before they are stored: the update itself can overflow."""
    for name, parameter in model.named_parameters():
        if not parameter.isfinite().all():
            raise Diverged(
                f"the weights are no longer numbers after update {step}",
                got=f"infinity or NaN in {name}",
                remedy=f"They were not stored. {_REMEDY}",
            )
