"""R-Drop (Liang et al. 2021): two passes over a batch, each with its own dropout, should predict the same.

    S = Σ_n KL(p_n ‖ q_n) + KL(q_n ‖ p_n) = Σ_n Σ_v (p − q)(log p − log q)

p and q are the distributions of the two passes over the vocabulary. With logits a of p, the gradient is

    ∂S/∂a = p · (log p − log q − KL(p ‖ q)) + p − q

and that of q's logits follows by exchanging the two. As in `loss.py`, slices of logits are computed, used and dropped,
so that no [tokens × vocabulary] matrix is kept for the backward pass.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.tasks.loss import SLICE


def symmetric_divergence(first: Tensor, second: Tensor, weight: Tensor, *, bias: Tensor | None = None) -> Tensor:
    """S of the logits first · weightᵀ + bias and second · weightᵀ + bias; the states are [N,D]."""
    return _SymmetricDivergence.apply(first, second, weight, bias)  # type: ignore[no-untyped-call]


class _SymmetricDivergence(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, first: Tensor, second: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        total = weight.new_zeros(())
        grads: tuple[list[Tensor], list[Tensor]] = ([], [])
        grad_weight = torch.zeros_like(weight)
        grad_bias = None if bias is None else torch.zeros_like(bias)
        rows = max(1, SLICE // weight.shape[0])
        for pair in zip(first.split(rows), second.split(rows), strict=True):
            states = [part.to(weight.dtype) for part in pair]
            divergence, by_logits = _diverge(*(torch.nn.functional.linear(part, weight, bias) for part in states))
            total += divergence
            for side, part, by_logit in zip(grads, states, by_logits, strict=True):
                side.append((by_logit @ weight).to(first.dtype))
                grad_weight.addmm_(by_logit.T, part)
                if grad_bias is not None:
                    grad_bias += by_logit.sum(0)
        ctx.save_for_backward(*(torch.cat(side) for side in grads), grad_weight, grad_bias)
        return total

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return tuple(None if saved is None else saved * grad.to(saved.dtype) for saved in ctx.saved_tensors)


def _diverge(first: Tensor, second: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """S of some rows of logits, and its gradients with respect to them."""
    log_p, log_q = first.log_softmax(-1), second.log_softmax(-1)
    p, q, ratio = log_p.exp(), log_q.exp(), log_p - log_q
    forward, backward = (p * ratio).sum(-1, keepdim=True), -(q * ratio).sum(-1, keepdim=True)
    by_first, by_second = p * (ratio - forward) + (p - q), q * (-ratio - backward) + (q - p)
    return (forward + backward).sum(), (by_first, by_second)
