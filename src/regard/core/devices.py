"""Device questions, without device names in the pieces: tensors are made where their inputs are."""

from __future__ import annotations

import contextlib

import torch
from torch import Tensor

HOST = torch.device("cpu")
"""Where tables of constants are computed, even while a model is built on the `meta` device."""


def lower_precision(like: Tensor) -> torch.dtype | None:
    """The dtype that autocast uses for matrix products on this tensor's device; None without autocast."""
    kind = like.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else None


def full_precision(like: Tensor) -> contextlib.AbstractContextManager[object]:
    """A context without autocast on this tensor's device."""
    return torch.autocast(like.device.type, enabled=False)
