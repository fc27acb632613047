"""The attention that each input has received so far, for searches with a coverage penalty."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.decoding.request import Request


def add_cover(cover_K: Tensor | None, seen_K: Tensor, request: Request) -> Tensor:
    """Add the attention of one more reading to that of a request's first path. Keys that are no inputs have 1."""
    if cover_K is None:
        cover_K = (~_real_inputs(request, len(seen_K))).to(seen_K)
    return with_seen(cover_K[None], seen_K[None])[0]


def with_seen(cover_NK: Tensor, seen_NK: Tensor) -> Tensor:
    """The sum of both. A step that also runs longer sources has more keys; for this request they are padding."""
    more = seen_NK.shape[1] - cover_NK.shape[1]
    return F.pad(cover_NK, (0, max(more, 0)), value=1.0) + F.pad(seen_NK, (0, max(-more, 0)))


def _real_inputs(request: Request, n_keys: int) -> Tensor:
    """A mask [K] that is True for keys that are inputs of the request and not padding."""
    mask_S = request.inputs.get("source_mask")
    if mask_S is not None:
        return F.pad(mask_S.bool(), (0, n_keys - len(mask_S)))[:n_keys]
    length = n_keys if request.source_length is None else request.source_length
    return torch.arange(n_keys) < length
