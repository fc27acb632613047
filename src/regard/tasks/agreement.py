"""R-Drop (Liang et al. 2021): two passes over a batch, each with its own dropout, should predict the same.

    loss = Σ_n (C_n(p) + C_n(q)) / 2 + α/4 · S_n        S_n = KL(p_n ‖ q_n) + KL(q_n ‖ p_n) = Σ_v (p − q)(log p − log q)

p and q are the distributions of the two passes over the vocabulary, C is the cross-entropy of `loss.py`. This is half
of the paper's loss, so that its size is that of one pass. With logits a of p, the divergence has the gradient

    ∂S/∂a = p · (log p − log q − KL(p ‖ q)) + p − q

and that of q's logits follows by exchanging the two. As in `loss.py`, slices of logits are computed once, overwritten
by their gradients and multiplied into those of the states and the output matrix.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.core.devices import lower_precision
from regard.tasks import loss
from regard.tasks._native_loss import native_agreement


def linear_agreement(
    states: tuple[Tensor, Tensor],
    weight: Tensor,
    labels: Tensor,
    *,
    strength: float,
    bias: Tensor | None = None,
    smoothing: float = 0.0,
) -> Tensor:
    """The summed loss of two passes' states [N,D] against labels [N]; `strength` is the paper's α."""
    return _LinearAgreement.apply(*states, weight, bias, labels, smoothing, strength)  # type: ignore[no-untyped-call]


class _LinearAgreement(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        first: Tensor,
        second: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        labels: Tensor,
        smoothing: float,
        strength: float,
    ) -> Tensor:
        total = weight.new_zeros((), dtype=torch.float32)
        low = lower_precision(weight) or weight.dtype
        matrix, agree = weight.to(low), native_agreement(low, weight.device) or _agree
        grads: tuple[list[Tensor], list[Tensor]] = ([], [])
        grad_weight = torch.zeros_like(weight)
        grad_bias = None if bias is None else torch.zeros_like(bias)
        # A slice holds the logits of both passes, so it has half as many rows.
        rows = max(1, loss.SLICE // 2 // weight.shape[0])
        for *pair, wanted in zip(
            first.to(low).split(rows), second.to(low).split(rows), labels.split(rows), strict=True
        ):
            logits = [part @ matrix.T for part in pair]
            total += agree(logits[0], logits[1], wanted, smoothing, bias, strength)
            for side, part, by_logits in zip(grads, pair, logits, strict=True):
                side.append((by_logits @ matrix).to(first.dtype))
                grad_weight += by_logits.T @ part
                if grad_bias is not None:
                    grad_bias += by_logits.sum(0, dtype=grad_bias.dtype)
        ctx.save_for_backward(*(torch.cat(side) for side in grads), grad_weight, grad_bias)
        return total

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        scaled = (None if saved is None else saved * grad.to(saved.dtype) for saved in ctx.saved_tensors)
        return (*scaled, None, None, None)


def _agree(
    first: Tensor, second: Tensor, wanted: Tensor, smoothing: float, bias: Tensor | None, strength: float
) -> Tensor:
    """The summed loss of some rows; both passes' logits are overwritten by the gradient of the loss."""
    exact = torch.promote_types(first.dtype, torch.float32)
    log_p, log_q = ((side.to(exact) + (0 if bias is None else bias)).log_softmax(-1) for side in (first, second))
    p, q, ratio = log_p.exp(), log_q.exp(), log_p - log_q
    forward, backward = (p * ratio).sum(-1, keepdim=True), -(q * ratio).sum(-1, keepdim=True)
    by_first, by_second = p * (ratio - forward) + (p - q), q * (-ratio - backward) + (q - p)
    total = strength / 4 * (forward + backward).sum()
    for logits, log_probs, probs, by_logits in ((first, log_p, p, by_first), (second, log_q, q, by_second)):
        right = log_probs.gather(1, wanted[:, None]).sum()
        total = total - ((1 - smoothing) * right + smoothing * log_probs.mean(1).sum()) / 2
        grad = strength / 4 * by_logits + (probs - smoothing / probs.shape[1]) / 2
        grad[torch.arange(len(wanted)), wanted] -= (1 - smoothing) / 2
        logits.copy_(grad)
    return total
