"""Where the tokens of a causal model stand and what they may see, wherever padding is."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.attention.masks import Mask, causal, window


def places(
    input_ids: Tensor,
    attention_mask: Tensor | None,
    position_ids: Tensor | None,
    past: int = 0,
    *,
    reach: int | None = None,
) -> tuple[Tensor, Mask]:
    """Where each token stands, counting real ones only, and what it may see: itself and what came before it, or the
    last `reach` of these.
    """
    before = causal() if reach is None else window(reach - 1, 0)
    if attention_mask is None:
        positions = torch.arange(past, past + input_ids.shape[1], device=input_ids.device)
        return positions if position_ids is None else position_ids, before
    real = attention_mask.bool()
    positions = (real.long().cumsum(1) - 1).clamp_min(0) if position_ids is None else position_ids
    return positions, before & Mask(keys=real)
