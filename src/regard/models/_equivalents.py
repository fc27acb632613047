"""Equivalent weights: rewrites the weights of a `transformer` without changing its translations.

Other libraries support one form of a Transformer each. If such a form fixes something that ours leaves open, the
weights are rewritten to match it:

sines first    Our sinusoids are ordered sin, cos, sin, cos …; theirs have all sines before all cosines. Apart from
               their weights, all layers treat the features of the residual stream alike, so the features can be
               reordered if all weights are reordered with them.
zero start     Their embedding of the token that begins a target is zero. We subtract this embedding (s) from every
               embedding: the logits of a tied output all change by the same number −hᵀs, which softmax ignores. The
               first layer adds s again. With c = √d·s its query, key and value get the bias W c, and its output gets
               the bias c, which the residual connection now lacks. This needs `order="post"`, because a norm before
               the layer would change c.
one vocabulary Rows of the embeddings and of the output are reordered, so that two vocabularies become one. A token
               that the target lacks gets a logit so low that its probability is zero.

Sums are computed in double precision and rounded once.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from regard.models.transformer import TransformerConfig

Tensors = dict[str, Tensor]
NEVER = -1000.0
"""The logit of a token that is never generated. It is finite, so that log p in label smoothing stays finite."""

_LAYER = r"(encoder|decoder)\.\d+\."
_BY_COLUMNS = re.compile(
    rf"(source|target)_embedding\.weight|output\.weight|{_LAYER}((self|cross)\.(query|key|value)|feedforward\.up)\.weight"
)
_BY_ROWS = re.compile(
    rf"{_LAYER}((self|cross)\.output|feedforward\.down|around_\w+\.norm)\.\w+|(encoder|decoder)_norm\.\w+"
)


def sines_first(tensors: Mapping[str, Tensor], d_model: int) -> Tensors:
    """The weights for features in the order 0, 2, 4, … 1, 3, 5, …"""
    order = torch.cat([torch.arange(0, d_model, 2), torch.arange(1, d_model, 2)])
    dims = {name: 1 if _BY_COLUMNS.fullmatch(name) else 0 if _BY_ROWS.fullmatch(name) else None for name in tensors}
    return {
        name: tensor if (dim := dims[name]) is None else tensor.index_select(dim, order)
        for name, tensor in tensors.items()
    }


def zero_start(tensors: Mapping[str, Tensor], config: TransformerConfig, start: int) -> Tensors:
    """The weights of a post-norm model for which the target's embedding of `start` is zero."""
    assert config.order == "post"
    shared = config.share == "all"
    embedding = f"{'source' if shared else 'target'}_embedding.weight"
    vector = tensors[embedding][start].double()
    constant = vector * (math.sqrt(config.d_model) if config.scale else 1.0)
    changed = {embedding: tensors[embedding].double() - vector}
    for side in ("encoder", "decoder") if shared else ("decoder",):
        first = f"{side}.0.self."
        for part in ("query", "key", "value"):
            weight, bias = (tensors[f"{first}{part}.{kind}"].double() for kind in ("weight", "bias"))
            changed[f"{first}{part}.bias"] = bias + weight @ constant
        changed[f"{first}output.bias"] = tensors[f"{first}output.bias"].double() + constant
    return {**tensors, **{name: tensor.to(tensors[name].dtype) for name, tensor in changed.items()}}


def one_vocabulary(tensors: Mapping[str, Tensor], source: Sequence[int], target: Sequence[int | None]) -> Tensors:
    """The weights for a new vocabulary, and its bias. The lists give each new token's old ids, one for each side.

    None: the target side lacks the token.
    """
    known = torch.tensor([token is not None for token in target])
    rows = {"source": torch.tensor(source), "target": torch.tensor([token or 0 for token in target])}
    changed = dict(tensors)
    for name in ("source_embedding.weight", "target_embedding.weight", "output.weight"):
        if name in tensors:
            side = "source" if name.startswith("source") else "target"
            changed[name] = tensors[name][rows[side]]
            if side == "target" or "target_embedding.weight" not in tensors:  # one matrix for both sides
                changed[name][~known] = 0.0
    before = tensors.get("output.bias")
    bias = changed["source_embedding.weight"].new_zeros(len(known)) if before is None else before[rows["target"]]
    return {**changed, "output.bias": torch.where(known, bias, NEVER)}
