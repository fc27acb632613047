"""Windowed attention at the cost of the window: O(n·w) instead of O(n²), and no n × n mask.

A windowed call is rewritten as a smaller call without the keys that are out of reach. `attend` solves that call:

- keys that no query reaches are cut off (under a sliding window of w keys, the next token reads only w keys);
- a window around each step becomes blocks of S queries with the S + before + after keys that they reach; the blocks
  become rows of the batch;
- a window around predicted centres becomes one gathered row of keys for each query.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional

from regard.attention.masks import Mask
from regard.attention.scores.dot import Dot
from regard.attention.stages import Stages, place_range, share_heads

Part = tuple[Stages, Callable[[Tensor], Tensor]]

# With shorter blocks the kernel's fixed costs exceed what they save on keys (measured on a CPU).
_LEAST_BLOCK = 128
_DOT = Dot()


def split(stages: Stages) -> Part | None:
    """The smaller call, and a function that turns its context into that of the original call; None if this saves
    nothing."""
    mask = stages.mask
    if mask.before is None and mask.after is None:
        return None
    by_value = mask.pairs is not None or isinstance(stages.bias, Tensor) or isinstance(stages.gain, Tensor)
    if by_value or stages.chooser.stochastic:
        return None
    if stages.score.by_index:
        form = stages.score.as_dot(stages.query, stages.keys)
        if form is None or stages.bias is not None:  # a bias reads the original query
            return None
        stages = replace(stages, query=form[0] * form[2], keys=form[1], score=_DOT)
    if mask.centre is not None:
        return _gather(stages, mask.centre)
    return _crop(stages) or _blocks(stages)


def _crop(stages: Stages) -> Part | None:
    mask, n_keys = stages.mask, stages.n_keys
    first = mask.first(stages.n_queries, n_keys)
    low = 0 if mask.before is None else min(max(first - mask.before, 0), n_keys)
    high = n_keys if mask.after is None else max(min(first + stages.n_queries + mask.after, n_keys), low)
    if low == 0 and high == n_keys:
        return None
    real = None if mask.keys is None else mask.keys[:, low:high]
    kept = replace(mask, start=first - low, keys=real)
    keys, values = stages.keys[:, :, low:high], stages.values[:, :, low:high]
    return replace(stages, keys=keys, values=values, mask=kept), _unchanged


def _blocks(stages: Stages) -> Part | None:
    mask, n_queries, n_keys = stages.mask, stages.n_queries, stages.n_keys
    if mask.before is None or mask.after is None:
        return None
    reach = mask.before + mask.after
    block = max(_LEAST_BLOCK, reach)
    if 2 * (block + reach) > n_keys:
        return None
    batch, n_heads, count = stages.query.shape[0], stages.query.shape[1], -(-n_queries // block)
    left = mask.before - mask.first(n_queries, n_keys)
    right = count * block + reach - n_keys - left

    def key_blocks(x: Tensor) -> Tensor:
        padded = functional.pad(x, (0, 0, left, right))
        return padded.unfold(2, block + reach, block).permute(0, 2, 1, 4, 3).flatten(0, 1)

    real = torch.ones(1, n_keys, dtype=torch.bool, device=stages.keys.device) if mask.keys is None else mask.keys
    reached = functional.pad(real, (left, right)).unfold(1, block + reach, block)
    query = functional.pad(stages.query, (0, 0, 0, count * block - n_queries))
    smaller = replace(
        stages,
        query=query.unflatten(2, (count, block)).transpose(1, 2).flatten(0, 1),
        keys=key_blocks(stages.keys),
        values=key_blocks(stages.values),
        mask=Mask(mask.before, mask.after, start=mask.before, keys=reached.expand(batch, -1, -1).flatten(0, 1)),
    )

    def join(context: Tensor) -> Tensor:
        whole = context.unflatten(0, (batch, count)).transpose(1, 2).reshape(batch, n_heads, count * block, -1)
        return whole[:, :, :n_queries]

    return smaller, join


def _gather(stages: Stages, centre: Tensor) -> Part | None:
    mask, n_keys = stages.mask, stages.n_keys
    batch, n_heads, n_queries, _ = stages.query.shape
    if mask.before is None or mask.after is None:
        return None
    width = mask.before + mask.after + 1
    if 2 * width > n_keys:
        return None
    centre = centre.expand(batch, n_heads, n_queries)
    first = torch.ceil(centre.detach() - mask.before).long()
    places_BHQW = place_range(first, width)
    inside = (places_BHQW >= 0) & (places_BHQW < n_keys)
    places_BHQW = places_BHQW.clamp(0, n_keys - 1)
    if mask.keys is not None:
        inside = inside & mask.keys[:, None, None].expand(batch, n_heads, n_queries, -1).gather(-1, places_BHQW)

    def rows(x: Tensor) -> Tensor:
        """[B,H,Q,...] → [B·Q,H,...]: each query becomes a row of the batch."""
        return x.transpose(1, 2).flatten(0, 1)

    def gathered(x: Tensor) -> Tensor:
        x = share_heads(x, n_heads).expand(-1, n_heads, -1, -1)
        index = places_BHQW.flatten(2).unsqueeze(-1).expand(-1, -1, -1, x.shape[-1])
        return rows(x.gather(2, index).unflatten(2, (n_queries, width)))

    smaller = replace(
        stages,
        query=rows(stages.query).unsqueeze(2),
        keys=gathered(stages.keys),
        values=gathered(stages.values),
        mask=Mask(mask.before, mask.after, centre=rows(centre - first).unsqueeze(2), pairs=rows(inside).unsqueeze(2)),
    )
    return smaller, lambda context: context.unflatten(0, (batch, n_queries)).squeeze(3).transpose(1, 2)


def _unchanged(context: Tensor) -> Tensor:
    return context
