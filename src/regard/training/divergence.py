"""Stops training when a number is infinite or NaN, so that no such number is stored."""

from __future__ import annotations

import math

from torch import nn

from regard.core.errors import RegardError

_REMEDY = "Lower training.lr, lengthen training.warmup or set training.clip, with another --out."


class Diverged(RegardError):
    """The loss, the gradient or a weight is infinite or NaN."""


def check_number(what: str, value: float, step: int) -> None:
    """Check the loss or the gradient norm before the update."""
    if not math.isfinite(value):
        raise Diverged(f"the {what} is {value} at update {step}", remedy=f"No update was made with it. {_REMEDY}")


def check_weights(model: nn.Module, step: int) -> None:
    """Check the weights after an update, before they are stored: the update itself can overflow."""
    for name, parameter in model.named_parameters():
        if not parameter.isfinite().all():
            raise Diverged(
                f"the weights are not finite after update {step}",
                got=f"infinity or NaN in {name}",
                remedy=f"They were not stored. {_REMEDY}",
            )
