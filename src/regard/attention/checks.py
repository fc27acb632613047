"""Checks of the inputs of `attend`, with clearer errors than torch's own."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.attention.masks import Mask
from regard.core.contracts import BiasFunction, GainFunction, Score
from regard.core.errors import ShapeError


def check_inputs(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    mask: Tensor | Mask | None,
    bias: Tensor | BiasFunction | None,
    gain: Tensor | GainFunction | None,
    score: Score,
) -> None:
    """Refuse tensors that do not fit together. The checks take microseconds when nothing is wrong."""
    if not query.dim() == keys.dim() == values.dim() or not 2 <= query.dim() <= 4:
        raise ShapeError(
            "query, keys and values differ in their number of axes",
            got=_shapes(query, keys, values),
            expected="all [B,H,n,E], all [B,n,E] or all [n,E]",
            remedy="A single query vector is query[None].",
        )
    if not query.dtype == keys.dtype == values.dtype or not query.is_floating_point():
        raise ShapeError(
            "query, keys and values differ in type or are not floating point",
            got=f"{query.dtype}, {keys.dtype}, {values.dtype}",
            expected="one floating-point type",
        )
    if keys.shape[:-1] != values.shape[:-1]:
        raise ShapeError("keys and values differ in number", got=_shapes(keys, values), expected="a value for each key")
    _check_lead(query, keys)
    if score.same_width and query.shape[-1] != keys.shape[-1]:
        raise ShapeError(
            "query and keys differ in width",
            got=f"{query.shape[-1]} and {keys.shape[-1]}",
            expected="equal widths for this score",
            remedy="Project one of them, or use the score 'general' or 'additive'.",
        )
    pairs = mask.pairs if isinstance(mask, Mask) else mask
    scores_shape = torch.Size([*query.shape[:-1], keys.shape[-2]])
    for name, tensor in (("mask", pairs), ("bias", bias), ("gain", gain)):
        if isinstance(tensor, Tensor):
            _check_pairs(name, tensor, scores_shape)
    if isinstance(mask, Mask) and mask.centre is not None:
        _check_pairs("centre", mask.centre, query.shape[:-1])
    if isinstance(mask, Mask) and mask.keys is not None:
        _check_key_mask(mask.keys, query.shape[0] if query.dim() > 2 else 1, keys.shape[-2])


def _check_lead(query: Tensor, keys: Tensor) -> None:
    if query.dim() > 2 and query.shape[0] != keys.shape[0]:
        raise ShapeError("query and keys differ in batch size", got=_shapes(query, keys), expected="equal first axes")
    if query.dim() == 4 and (keys.shape[1] == 0 or query.shape[1] % keys.shape[1] != 0):
        raise ShapeError(
            "the query heads cannot share the key heads",
            got=f"{query.shape[1]} query heads and {keys.shape[1]} key heads",
            expected="a multiple",
        )


def _check_pairs(name: str, tensor: Tensor, scores: torch.Size) -> None:
    if name == "mask" and tensor.dtype != torch.bool:
        raise ShapeError(
            "mask is not boolean",
            got=str(tensor.dtype),
            expected="torch.bool with True = may attend",
            remedy="Use mask.bool(), or pass numbers that are added to the scores as bias=.",
        )
    if tensor.dim() > len(scores) or any(
        size not in (1, whole) for size, whole in zip(reversed(tensor.shape), reversed(scores), strict=False)
    ):
        raise ShapeError(
            f"{name} does not fit the scores",
            got=list(tensor.shape),
            expected=f"a shape that broadcasts to {list(scores)}",
            remedy="Padding of shape [B,K] goes in as mask[:, None, None, :] or as Mask(keys=...)."
            if name == "mask"
            else None,
        )


def _check_key_mask(real: Tensor, batch: int, n_keys: int) -> None:
    if real.dim() != 2 or real.shape[0] not in (1, batch) or real.shape[1] != n_keys:
        raise ShapeError("the padding mask does not fit the keys", got=list(real.shape), expected=[batch, n_keys])


def _shapes(*tensors: Tensor) -> str:
    return ", ".join(str(list(tensor.shape)) for tensor in tensors)
