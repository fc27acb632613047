"""Devices and precision. No other module names a device: tensors are made on the device of their inputs."""

from __future__ import annotations

import contextlib

import torch
from torch import Tensor

HOST = torch.device("cpu")
"""The device on which tables of constants are computed, even while a model is built on the `meta` device."""


def lower_precision(like: Tensor) -> torch.dtype | None:
    """The dtype that autocast uses for matrix products on this tensor's device; None without autocast."""
    kind = like.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else None


def full_precision(like: Tensor) -> contextlib.AbstractContextManager[object]:
    """A context without autocast on this tensor's device."""
    return torch.autocast(like.device.type, enabled=False)
