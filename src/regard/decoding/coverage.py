"""How much attention each input has got so far, for searches whose score counts it."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.decoding.request import Request


def add_cover(cover_K: Tensor | None, seen_K: Tensor, request: Request) -> Tensor:
    """The attention that a request's first path has got, with what one more reading gave; 1 where there is no input."""
    if cover_K is None:
        cover_K = (~_real_inputs(request, len(seen_K))).to(seen_K)
    return with_seen(cover_K[None], seen_K[None])[0]


def with_seen(cover_NK: Tensor, seen_NK: Tensor) -> Tensor:
    """Both added; steps in company of longer sources have more keys, which are no inputs here."""
    more = seen_NK.shape[1] - cover_NK.shape[1]
    return F.pad(cover_NK, (0, max(more, 0)), value=1.0) + F.pad(seen_NK, (0, max(-more, 0)))


def _real_inputs(request: Request, n_keys: int) -> Tensor:
    """Which of the keys are inputs of the request [K], and no padding."""
    mask_S = request.inputs.get("source_mask")
    if mask_S is not None:
        return F.pad(mask_S.bool(), (0, n_keys - len(mask_S)))[:n_keys]
    length = n_keys if request.source_length is None else request.source_length
    return torch.arange(n_keys) < length
