"""Attention weights, small enough for a page: eight bits each, deflated, in base64.

A page of 12 layers, 12 heads and 512 tokens has 38 million weights of each kind. Each head is packed separately, so
that the page unpacks only what it shows. A small number of weights is stored exactly (`f32`). More are stored in steps
relative to the head's largest: 255 steps if none is negative (`u8`), 127.5 steps to each side if some are negative or
missing (`i8`, with −128 for missing). No weight changes by more than 1/255 of its head's largest, and 0 stays 0.
"""

from __future__ import annotations

import base64
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

EXACT = 250_000  # up to this many weights are stored exactly
THUMB = 24
_MISSING = -128


@dataclass(frozen=True)
class Packed:
    """A matrix as text: `form` is f32, u8 or i8; a weight is its number times `scale`; `peak` is the largest size."""

    form: str
    scale: float
    peak: float
    signed: bool
    text: str

    def facts(self) -> dict[str, Any]:
        return {"form": self.form, "scale": self.scale, "peak": self.peak, "signed": self.signed}


def pack(matrix: Tensor, *, exact: bool) -> Packed:
    """Pack one head's weights [Q,K]."""
    matrix = matrix.detach().cpu().float()
    finite = torch.isfinite(matrix)
    whole = bool(finite.all())
    known = matrix if whole else matrix.where(finite, 0.0)
    low, high = (float(x) for x in known.aminmax()) if known.numel() else (0.0, 0.0)
    peak, signed = max(-low, high), low < 0
    if exact:
        kept = matrix if whole else matrix.where(finite, torch.nan)
        return Packed("f32", 1.0, peak, signed, _compress(kept.numpy().astype("<f4")))
    steps = 127.5 if signed or not whole else 255.0
    # Dividing in this order avoids a scale that underflows in 32 bits although the peak does not.
    numbers = (known / peak * steps).round() if peak else torch.zeros_like(known)
    if steps == 255.0:
        return Packed("u8", peak / steps, peak, False, _compress(numbers.to(torch.uint8).numpy()))
    numbers = numbers.clamp(-127, 127) if whole else numbers.clamp(-127, 127).where(finite, _MISSING)
    return Packed("i8", peak / steps, peak, signed, _compress(numbers.to(torch.int8).numpy()))


def unpack(packed: Packed, shape: tuple[int, int]) -> Tensor:
    """The matrix that a reader of the page sees."""
    raw = zlib.decompress(base64.b64decode(packed.text), wbits=-15)
    kinds: dict[str, Any] = {"f32": "<f4", "u8": np.uint8, "i8": np.int8}
    numbers = torch.from_numpy(np.frombuffer(raw, kinds[packed.form]).astype(np.float64)).view(shape)
    weights = numbers * packed.scale
    return weights.where(numbers != _MISSING, torch.nan) if packed.form == "i8" else weights


def thumbnails(weights: Tensor) -> dict[str, Any]:
    """Heads [H,Q,K] as thumbnails: each pixel is the weight of largest magnitude that falls on it.

    Numbers from −127 to 127 in base64, where 127 is the head's largest magnitude.
    """
    weights = weights.detach().cpu().float().nan_to_num(0.0, 0.0, 0.0)
    queries, keys = weights.shape[1:]
    size = (min(queries, THUMB), min(keys, THUMB))
    if not all(size):
        return {"height": 0, "width": 0, "text": ""}
    small = F.adaptive_max_pool2d(weights, size)
    if bool((weights < 0).any()):
        lowest = -F.adaptive_max_pool2d(-weights, size)
        small = torch.where(-lowest > small, lowest, small)
    peaks = small.abs().amax(dim=(1, 2), keepdim=True).clamp_min(torch.finfo(torch.float32).tiny)
    numbers = (small / peaks * 127).round().to(torch.int8).numpy()
    return {"height": size[0], "width": size[1], "text": base64.b64encode(numbers.tobytes()).decode()}


def _compress(numbers: np.ndarray[Any, Any]) -> str:
    press = zlib.compressobj(level=4, wbits=-15)
    return base64.b64encode(press.compress(numbers.tobytes()) + press.flush()).decode()
