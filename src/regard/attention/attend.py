"""The one attention operation: score → bias → allow → choose → mix.

    weights = choose(score(q, K) + bias, allowed) · gain        context = weights · V

Every attention of the project is a call of `attend` with other stages. It takes the cheapest path that gives the same
result: torch's fused kernel for inner products with a softmax, blocks of keys for windows (`attention.local`), and
otherwise stage by stage. The weights are only computed when they are read.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar, cast

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from regard.attention import local
from regard.attention.checks import check_inputs
from regard.attention.choosers import shared_chooser
from regard.attention.masks import Mask
from regard.attention.scores import shared_score
from regard.attention.scores._dot_form import gives_new_memory
from regard.attention.stages import Stages, share_heads
from regard.core import taps
from regard.core.contracts import BiasFunction, Chooser, GainFunction, SamplingChooser, Score
from regard.core.devices import HOST, full_precision, lower_precision
from regard.core.fast_dropout import drop

_EVERYTHING = Mask()
Pairs = TypeVar("Pairs")


class Attended:
    """The result of attention: `context`, and `weights` [.., Q, K], which are computed on first use.

    It unpacks as a pair: `context, weights = attend(...)`. `log_prob` is set if the choice was sampled.
    """

    __slots__ = ("_weights", "_work_out", "context", "log_prob")

    def __init__(
        self,
        context: Float[Tensor, "*BH Q E_value"],
        weights: Float[Tensor, "*BH Q K"] | Callable[[], Float[Tensor, "*BH Q K"]],
        log_prob: Float[Tensor, "*BH Q"] | None = None,
    ) -> None:
        self.context, self.log_prob = context, log_prob
        self._weights = weights if isinstance(weights, Tensor) else None
        self._work_out = None if isinstance(weights, Tensor) else weights

    @property
    def weights(self) -> Float[Tensor, "*BH Q K"]:
        if self._weights is None:
            assert self._work_out is not None
            self._weights, self._work_out = self._work_out(), None
        return self._weights

    def __iter__(self) -> Iterator[Tensor]:
        yield self.context
        yield self.weights


def attend(
    query: Float[Tensor, "*BH Q E"],
    keys: Float[Tensor, "*BG K E_key"],
    values: Float[Tensor, "*BG K E_value"],
    *,
    score: str | Score = "scaled_dot",
    mask: Tensor | Mask | None = None,
    bias: Tensor | BiasFunction | None = None,
    chooser: str | Chooser = "softmax",
    gain: Tensor | GainFunction | None = None,
    dropout: float = 0.0,
    site: str | None = "attend",
    axes: taps.Axes | None = None,
    value_path: Callable[[Tensor], Tensor] | None = None,
) -> Attended:
    """Mix `values` by how well `keys` match `query`.

    Shapes: query [B,H,Q,E], keys [B,G,K,E], values [B,G,K,E']; the head axis, or the head and batch axes, may be left
    out. Fewer key heads G than query heads H is grouped-query attention. `mask` is boolean (True = may attend) or a
    `Mask`; a query that may see nothing gets zeros. `bias` is added to the scores, `gain` multiplies the weights; each
    is a tensor that broadcasts to [B,H,Q,K] or a function of the distance (see `core.contracts`). `dropout` always
    drops weights, so pass it in training only. `site`, `axes` and `value_path` describe the call to watchers
    (`core.taps`); with `site=None` nothing is reported.
    """
    if lower_precision(query) is not None:
        # Under autocast, attention is computed in float32: in bfloat16 the fused kernel's backward pass takes 4× as
        # long on a CPU (measured), and queries, keys and values may have different types.
        with full_precision(query):
            return attend(
                query.float(), keys.float(), values.float(), score=score, mask=mask, bias=bias, chooser=chooser,
                gain=gain, dropout=dropout, site=site, axes=axes, value_path=value_path,
            )  # fmt: skip
    chosen_score = shared_score(score) if isinstance(score, str) else score
    chosen_chooser = shared_chooser(chooser) if isinstance(chooser, str) else chooser
    check_inputs(query, keys, values, mask, bias, gain, chosen_score)
    n_dims = query.dim()
    if n_dims < 4:
        query, keys, values = (_add_axes(x) for x in (query, keys, values))
        if n_dims == 3:  # a mask [B,Q,K] for a query [B,Q,E] gets a head axis after B
            mask, bias, gain = _add_head(mask), _add_head(bias), _add_head(gain)
    allowed = mask if isinstance(mask, Mask) else _EVERYTHING if mask is None else Mask(pairs=mask)
    allowed = allowed.trim(query.shape[2], keys.shape[2])
    attended = solve(Stages(query, keys, values, chosen_score, allowed, bias, chosen_chooser, gain, dropout))
    if site is not None:
        may_see = functools.partial(allowed.dense, query.shape[2], keys.shape[2], query.device)
        taps.report(site, query, keys, values, lambda: attended.weights, value_path, may_see, axes)
        attended.context = taps.altered(site, attended.context)
    return attended if n_dims == 4 else _strip_axes(attended, n_dims)


def solve(stages: Stages) -> Attended:
    """Take the cheapest path that gives the same result."""
    if stages.n_queries == 0 or stages.n_keys == 0:
        return _zeros(stages)
    part = local.split(stages)
    if part is not None:
        smaller, join = part
        return Attended(join(solve(smaller).context), lambda: choose(stages)[0])
    if stages.chooser.fused and stages.gain is None and stages.dropout == 0.0 and not _is_small(stages):
        form = stages.score.as_dot(stages.query, stages.keys)
        if form is not None:
            return Attended(_fused(stages, *form), lambda: choose(stages)[0])
    return _explicit(stages)


def _is_small(stages: Stages) -> bool:
    """True for few queries and keys in each of many heads, as in beam search with cross-attention. On a CPU the fused
    kernel then spends most of its time on fixed costs per head: two matrix products take a half to a third of its time
    (measured, 64 to 512 heads)."""
    batch, heads, queries, _ = stages.query.shape
    small = 1 < queries <= 16 and stages.n_keys <= 64 and batch * heads >= 64
    return small and not torch.is_grad_enabled() and stages.query.device == HOST


def choose(stages: Stages) -> tuple[Float[Tensor, "B H Q K"], Float[Tensor, "B H Q K"]]:
    """The stages up to the gain, one by one: weights [B,H,Q,K] before dropout, and the scores that led to them.

    Without an autograd graph, the softmax overwrites the scores, so both tensors are then the weights. Only sampling
    choosers read the scores.
    """
    chosen, scores = _choices(stages)
    return _with_gain(chosen, stages), scores


def _choices(stages: Stages) -> tuple[Tensor, Tensor]:
    """The chooser's weights, before any gain, and the scores."""
    scores = stages.score(stages.query, share_heads(stages.keys, stages.query.shape[1]))
    fresh = gives_new_memory(stages.score)
    allowed = stages.allowed()
    if stages.bias is not None:
        scores = scores + stages.evaluate_bias()
        # A bias of −∞ forbids a key as a mask does, even for rows that then see no key; so does the fused kernel.
        possible = scores > -torch.inf
        allowed = possible if allowed is None else allowed & possible
        scores = scores.clamp_min(torch.finfo(scores.dtype).min / 4)
    if allowed is None:
        return (_softmax(scores, fresh=fresh) if stages.chooser.fused else stages.chooser(scores)), scores
    # Adding and multiplying a small broadcast mask is several times faster on a CPU than filling by condition.
    # Half the lowest number is low enough for a weight of exactly 0, and adding any score does not make it −inf.
    permit = allowed.to(scores.dtype)
    scores = scores + (1 - permit) * (torch.finfo(scores.dtype).min / 2)
    return (_softmax(scores, fresh=True) if stages.chooser.fused else stages.chooser(scores)).mul(permit), scores


def _with_gain(chosen: Tensor, stages: Stages) -> Tensor:
    return chosen if stages.gain is None else chosen * stages.evaluate_gain()


def _softmax(scores: Tensor, *, fresh: bool) -> Tensor:
    """Softmax. If nothing else holds the scores (`fresh`), it is computed in place: allocating new memory costs as much
    time as the arithmetic."""
    reusable = fresh and scores._base is None and scores.is_contiguous() and not scores.requires_grad
    return torch.softmax(scores, dim=-1, out=scores) if reusable else torch.softmax(scores, dim=-1)


def _explicit(stages: Stages) -> Attended:
    chosen, scores = _choices(stages)
    weights = _with_gain(chosen, stages)
    context = drop(weights, stages.dropout) @ share_heads(stages.values, weights.shape[1])
    if stages.chooser.stochastic and isinstance(stages.chooser, SamplingChooser):
        return Attended(context, weights, stages.chooser.log_prob(scores, chosen))
    return Attended(context, weights)


def _fused(stages: Stages, query: Tensor, keys: Tensor, scale: float) -> Tensor:
    mask = stages.mask
    plain = mask.keys is None and mask.pairs is None and stages.bias is None
    causal = plain and mask.after == 0 and mask.before is None and mask.first(stages.n_queries, stages.n_keys) == 0
    added = None if causal else stages.allowed()
    if stages.bias is not None:
        bias = stages.evaluate_bias()
        added = bias if added is None else bias.masked_fill(~added, -torch.inf)
    return functional.scaled_dot_product_attention(
        query,
        keys,
        stages.values,
        attn_mask=added,
        is_causal=causal,
        scale=scale,
        enable_gqa=query.shape[1] != keys.shape[1],
    )


def _zeros(stages: Stages) -> Attended:
    """The result without queries or without keys: zeros, attached to the graph so that gradients are zero, not None."""
    query, values = stages.query, share_heads(stages.values, stages.query.shape[1])
    weights = (query.sum(-1, keepdim=True) * 0.0).expand(*query.shape[:3], stages.n_keys)
    return Attended(weights @ values, weights)


def _add_axes(x: Tensor) -> Tensor:
    return x[None, None] if x.dim() == 2 else x[:, None]


def _add_head(pairs: Pairs) -> Pairs:
    if isinstance(pairs, Mask):
        centre = pairs.centre if pairs.centre is None or pairs.centre.dim() != 2 else pairs.centre.unsqueeze(1)
        return cast(Pairs, replace(pairs, pairs=_add_head(pairs.pairs), centre=centre))
    return cast(Pairs, pairs.unsqueeze(1)) if isinstance(pairs, Tensor) and pairs.dim() == 3 else pairs


def _strip_axes(attended: Attended, axes: int) -> Attended:
    def strip(x: Tensor) -> Tensor:
        return x[0, 0] if axes == 2 else x[:, 0]

    log_prob = None if attended.log_prob is None else strip(attended.log_prob)
    return Attended(strip(attended.context), lambda: strip(attended.weights), log_prob)
