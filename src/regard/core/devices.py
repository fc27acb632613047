"""Where tensors are, without naming a device in the pieces: they follow their inputs."""

from __future__ import annotations

import contextlib

import torch
from torch import Tensor

HOST = torch.device("cpu")
"""Where tables of constants are worked out, also while a model is made without memory (`meta`)."""


def lower_precision(like: Tensor) -> torch.dtype | None:
    """The type that matrix products are done in where this tensor is, under autocast; None without."""
    kind = like.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else None


def full_precision(like: Tensor) -> contextlib.AbstractContextManager[object]:
    """No autocast where this tensor is."""
    return torch.autocast(like.device.type, enabled=False)
