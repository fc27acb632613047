"""Positions and mask of a causal model's tokens, wherever padding is."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.attention.masks import Mask, causal, window


def causal_positions(
    input_ids: Tensor,
    attention_mask: Tensor | None,
    position_ids: Tensor | None,
    past: int = 0,
    *,
    reach: int | None = None,
) -> tuple[Tensor, Mask]:
    """The position of each token, counting real tokens only, and the mask.

    A token sees itself and all tokens before it, or the last `reach` of these. `past` is how many tokens came before
    `input_ids`; `position_ids`, if given, are the positions.
    """
    before = causal() if reach is None else window(reach - 1, 0)
    if attention_mask is None:
        positions = torch.arange(past, past + input_ids.shape[1], device=input_ids.device)
        return positions if position_ids is None else position_ids, before
    real = attention_mask.bool()
    positions = (real.long().cumsum(1) - 1).clamp_min(0) if position_ids is None else position_ids
    return positions, before & Mask(keys=real)
