"""Jacobian norms through a stack of attention blocks, using the structure of the blocks.

In a block, everything but attention works on one token at a time: c_j = f(h_j, context_j), and q_j, k_j, v_j depend on
h_j alone. Their Jacobians are small matrices for each token. One backward pass per feature gives them for all tokens at
once. The derivative of attention is known in closed form. A cotangent g on c is then propagated back as

    g_context = g ∂f/∂context
    g_q, g_k, g_v             by attention's own derivative
    g_h = g ∂f/∂h + g_q ∂q/∂h + g_k ∂k/∂h + g_v ∂v/∂h

This takes four products of width d per token instead of twelve, and no element-wise work. For the topmost block, g is
on one token only: g_v is then a multiple of one vector for all keys, and g_k a multiple of the query, so little work is
left. If a test with a random cotangent shows that a block is not of this kind, there is no `Stack`, and `jacobian` runs
the model on copies instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.core import taps
from regard.explain.subject import Subject

_BATCH = 64
_MOST = 2 << 30  # limit on the bytes of a stack's matrices


@dataclass(frozen=True)
class Block:
    """The derivatives of one block at one row; T tokens, D features, H heads of width E."""

    forward_TDX: Tensor
    """∂c/∂(context, h) for each token [T, D, HE + D]; includes the part of attention's derivative through the query."""
    back_TXD: Tensor
    """∂(k, v)/∂h for each token [T, 2HE, D]."""
    weights: Tensor
    query: Tensor
    keys: Tensor
    values: Tensor
    scale: float
    same_values: bool
    """True if ∂v/∂h is the same matrix for every token."""

    @property
    def width(self) -> int:
        """HE."""
        return self.query.shape[0] * self.query.shape[2]

    def pull(self, g_NTD: Tensor) -> Tensor:
        """Propagate cotangents on the block's output to its input."""
        both = torch.einsum("ntd,tdx->ntx", g_NTD, self.forward_TDX)
        context = _split(both[..., : self.width], self.query.shape[0])
        change = context @ self.values.mT
        change = self.weights * (change - (self.weights * change).sum(-1, keepdim=True))
        g_keys = self.scale * (change.mT @ self.query)
        g_values = self.weights.mT @ context
        memory = torch.cat([_join(g_keys), _join(g_values)], -1)
        return both[..., self.width :] + torch.einsum("ntx,txd->ntd", memory, self.back_TXD)

    def pull_one(self, token: int, g_ND: Tensor) -> Tensor:
        """The same for cotangents on one token of the output."""
        both = g_ND @ self.forward_TDX[token]
        n_heads, width = self.query.shape[0], self.width
        context_NHE = both[:, :width].unflatten(1, (n_heads, -1))
        weights_HK = self.weights[:, token]
        change_NHK = torch.einsum("nhe,hke->nhk", context_NHE, self.values)
        change_NHK = weights_HK * (change_NHK - (weights_HK * change_NHK).sum(-1, keepdim=True))
        keys_THED, values_THED = (
            part.unflatten(1, (n_heads, -1)) for part in (self.back_TXD[:, :width], self.back_TXD[:, width:])
        )
        along_THD = self.scale * torch.einsum("he,thed->thd", self.query[:, token], keys_THED)
        g_NTD = torch.einsum("nht,thd->ntd", change_NHK, along_THD)
        if self.same_values:
            moved_NHD = torch.einsum("nhe,hed->nhd", context_NHE, values_THED[0])
            g_NTD += torch.einsum("ht,nhd->ntd", weights_HK, moved_NHD)
        else:
            spread_NTX = torch.einsum("ht,nhe->nthe", weights_HK, context_NHE).flatten(2)
            g_NTD += torch.einsum("ntx,txd->ntd", spread_NTX, values_THED.flatten(1, 2))
        g_NTD[:, token] += both[:, width:]
        return g_NTD


class Stack:
    """Blocks from the input to a layer, the topmost last."""

    def __init__(self, blocks: list[Block], dtype: torch.dtype) -> None:
        self.blocks, self.dtype = blocks, dtype

    @classmethod
    def between(
        cls,
        subject: Subject,
        row: int,
        states: dict[str, Tensor],
        inputs: str,
        layer: str,
        known: dict[str, Block | None] | None = None,
    ) -> Stack | None:
        """The blocks up to a layer, or None if the model is not such a stack; `known` holds blocks computed before."""
        stack, known = inputs.split(".")[0], {} if known is None else known
        names = [name for name in states if name.split(".")[0] == stack and name.split(".")[-1].isdigit()]
        if layer not in names:
            return None
        names = names[names.index(inputs) + 1 if inputs in names else 0 : names.index(layer) + 1]
        width, tokens = states[layer].shape[2], states[layer].shape[1]
        if 16 * len(names) * tokens * width * width > _MOST:
            return None
        for lower, upper in zip([inputs, *names[:-1]], names, strict=True):
            if upper not in known:
                known[upper] = _block(subject.repeated(1, row), states[lower][row : row + 1], lower, upper)
            if known[upper] is None:
                return None
        return cls([block for name in names if (block := known[name]) is not None], states[layer].dtype)

    def squares(self, n_tokens: int, probes: int | None, seed: int) -> Iterator[tuple[int, Tensor]]:
        """For each token of the layer, squared norms [cotangents, T] at the input."""
        from regard.explain.jacobian import cotangents

        *lower, top = self.blocks
        for token in range(n_tokens):
            whole = top.pull_one(token, cotangents(top.forward_TDX.shape[1], probes, seed, token, self.dtype))
            for g_NTD in whole.split(2 * _BATCH):
                for block in reversed(lower):
                    g_NTD = block.pull(g_NTD)
                yield token, g_NTD.square().sum(2)


class _Seen(Exception):
    """Stops the run: the layers above the block are not needed."""

    def __init__(self, hidden: Tensor) -> None:
        self.hidden = hidden


def _run(
    subject: Subject, lower: str, upper: str, h: Tensor, context: Tensor | None
) -> tuple[Tensor, list[taps.Seen], list[Tensor]]:
    """One block's output for the input h; `context`, if given, replaces the result of attention."""
    contexts: list[Tensor] = []

    def cut(name: str, x: Tensor) -> Tensor:
        if x.dim() != 4 or not name.startswith(f"{upper}."):
            return x
        contexts.append(x)
        return x if context is None else context

    def stop(_: str, x: Tensor) -> Tensor:
        raise _Seen(x)

    with taps.watch(f"{upper}.*", parts=True, graph=True) as record:
        try:
            with taps.alter({lower: lambda _, __: h, "*": cut, upper: stop}):
                subject.run(**subject.inputs)
        except _Seen as seen:
            return seen.hidden, record.seen, contexts
    raise AssertionError(f"{upper} was not reached")


def _block(subject: Subject, h: Tensor, lower: str, upper: str) -> Block | None:
    """The derivatives of the block from `lower` to `upper` at h [1,T,D]; None if the block is of another kind."""
    with torch.no_grad():
        _, seen, contexts = _run(subject, lower, upper, h, None)
    if len(seen) != 1 or len(contexts) != 1:
        return None
    weights, query, keys, values = (x for x in (seen[0].weights, seen[0].query, seen[0].keys, seen[0].values))
    assert weights is not None and query is not None and keys is not None and values is not None  # noqa: PT018
    if values.shape[3] != query.shape[3]:  # the closed form is for one width; SNAIL's values have their own
        return None
    n_heads = query.shape[1]
    shared = n_heads // keys.shape[1]
    parts: dict[str, Any] = {
        "weights": weights[0], "query": query[0], "keys": keys[0].repeat_interleave(shared, 0),
        "values": values[0].repeat_interleave(shared, 0), "scale": query.shape[3] ** -0.5,
    }  # fmt: skip
    local = _local(subject, lower, upper, h, contexts[0])
    own = _projections(subject, lower, upper, h, shared)
    query_TXD, keys_TXD, values_TXD = own
    width = query_TXD.shape[1]
    through_query = _query_share(local[..., :width], parts, n_heads)
    forward = torch.cat([local[..., :width], local[..., width:] + through_query @ query_TXD], -1)
    back = torch.cat([keys_TXD, values_TXD], 1)
    alike = float((values_TXD - values_TXD[:1]).abs().amax()) <= 1e-6 * float(values_TXD.abs().amax())
    block = Block(forward, back, same_values=alike, **parts)
    return block if _is_right(subject, lower, upper, h, block) else None


def _local(subject: Subject, lower: str, upper: str, h: Tensor, context: Tensor) -> Tensor:
    """∂c/∂(context, h) for each token [T, D, HE + D], with attention's result held fixed."""
    width, jacobians = h.shape[2], []
    copies = min(_BATCH, width)
    many = subject.repeated(copies)
    h_leaf = h.detach().expand(copies, -1, -1).clone().requires_grad_()
    leaf = context.detach().expand(copies, -1, -1, -1).clone().requires_grad_()
    with torch.enable_grad():
        c, _, _ = _run(many, lower, upper, h_leaf, leaf)
    for start in range(0, c.shape[2], copies):
        back = torch.zeros_like(c)
        for place in range(min(copies, c.shape[2] - start)):
            back[place, :, start + place] = 1
        by_context, by_h = torch.autograd.grad(c, (leaf, h_leaf), back, retain_graph=True)
        jacobians.append(torch.cat([_join(by_context), by_h], -1)[: c.shape[2] - start])
    return torch.cat(jacobians).transpose(0, 1).contiguous()


def _projections(subject: Subject, lower: str, upper: str, h: Tensor, shared: int) -> list[Tensor]:
    """∂q/∂h, ∂k/∂h, ∂v/∂h for each token, each [T, HE, D]; shared keys are repeated for each head."""
    jacobians = []
    copies = min(_BATCH, h.shape[2])
    h_leaf = h.detach().expand(copies, -1, -1).clone().requires_grad_()
    with torch.enable_grad():
        _, seen, _ = _run(subject.repeated(copies), lower, upper, h_leaf, None)
    for name in ("query", "keys", "values"):
        part_NHTE = getattr(seen[0], name)
        n_heads, width = part_NHTE.shape[1], part_NHTE.shape[3]
        rows = []
        for start in range(0, n_heads * width, copies):
            back = torch.zeros_like(part_NHTE)
            count = min(copies, n_heads * width - start)
            for place in range(count):
                back[place, (start + place) // width, :, (start + place) % width] = 1
            (slopes,) = torch.autograd.grad(part_NHTE, h_leaf, back, retain_graph=True)
            rows.append(slopes[:count])
        whole_HETD = torch.cat(rows).unflatten(0, (n_heads, width))
        repeated = whole_HETD if name == "query" else whole_HETD.repeat_interleave(shared, 0)
        jacobians.append(repeated.flatten(0, 1).transpose(0, 1).contiguous())
    return jacobians


def _query_share(by_context_TDX: Tensor, parts: dict[str, Any], n_heads: int) -> Tensor:
    """∂c/∂q for each token: through attention's derivative with respect to the query [T, D, HE]."""
    weights_HTK, keys_HKE, values_HKE = parts["weights"], parts["keys"], parts["values"]
    mean_HTE = weights_HTK @ keys_HKE
    mixed = torch.einsum("htk,hkv,hke->htve", weights_HTK, values_HKE, keys_HKE)
    context_HTV = weights_HTK @ values_HKE
    slope_HTVE = parts["scale"] * (mixed - context_HTV.unsqueeze(-1) * mean_HTE.unsqueeze(-2))
    by_head = by_context_TDX.unflatten(2, (n_heads, -1))
    return torch.einsum("tdhv,htve->tdhe", by_head, slope_HTVE).flatten(2)


def _is_right(subject: Subject, lower: str, upper: str, h: Tensor, block: Block) -> bool:
    """Check one random cotangent: autograd against the block's matrices."""
    leaf = h.detach().clone().requires_grad_()
    with torch.enable_grad():
        c, _, _ = _run(subject, lower, upper, leaf, None)
    g = torch.randn(c.shape, generator=torch.Generator().manual_seed(0)).to(c.dtype)
    (wanted,) = torch.autograd.grad(c, leaf, g)
    return float((block.pull(g) - wanted).norm()) <= 1e-4 * float(wanted.norm())


def _split(x_NTX: Tensor, n_heads: int) -> Tensor:
    return x_NTX.unflatten(2, (n_heads, -1)).transpose(1, 2)


def _join(x_NHTE: Tensor) -> Tensor:
    return x_NHTE.transpose(1, 2).flatten(2)
