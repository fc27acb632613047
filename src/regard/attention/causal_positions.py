"""Positions and mask for the tokens of a causal model, with padding anywhere."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.attention.masks import Mask, causal, window
from regard.core.state import Rows


def causal_positions(
    input_ids: Tensor,
    attention_mask: Tensor | None = None,
    position_ids: Tensor | None = None,
    *,
    reach: int | None = None,
) -> tuple[Tensor, Mask]:
    """The position of each token of whole texts, counting real tokens only, and the mask.

    A token sees itself and all tokens before it, or only the last `reach` of them. `position_ids`, if given, replace
    the counted positions.
    """
    before = causal() if reach is None else window(reach - 1, 0)
    if attention_mask is None:
        positions = torch.arange(input_ids.shape[1], device=input_ids.device)
        return positions if position_ids is None else position_ids, before
    real = attention_mask.bool()
    positions = (real.long().cumsum(1) - 1).clamp_min(0) if position_ids is None else position_ids
    return positions, before & Mask(keys=real)


def step_positions(rows: Rows, *, reach: int | None = None) -> tuple[Tensor, Mask]:
    """The positions and mask of the new tokens of paths that may already hold tokens. Positions are [T] if they are
    equal in all rows, else [N,T]."""
    if rows.uniform_start is not None:
        positions_T = torch.arange(rows.uniform_start, rows.n_keys, device=rows.starts_N.device)
        return positions_T, causal() if reach is None else window(reach - 1, 0)
    positions_NT = rows.positions_NT
    centre_N1T = positions_NT[:, None].double()  # the position of each query: an integer, so exact
    if reach is not None and rows.n_tokens == 1:
        return positions_NT, Mask(before=reach - 1, after=0, centre=centre_N1T)
    # The boolean tensor is computed here, once for all layers.
    keys_K = torch.arange(rows.n_keys, device=positions_NT.device)
    back_N1TK = positions_NT[:, None, :, None] - keys_K
    seen = back_N1TK >= 0 if reach is None else (back_N1TK >= 0) & (back_N1TK < reach)
    return positions_NT, Mask(pairs=seen, centre=centre_N1T)
