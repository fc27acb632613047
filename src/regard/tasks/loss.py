"""Cross-entropy over a large vocabulary, with label smoothing, without storing the logits.

    loss = Σ_n  −(1 − ε) log p_n(y_n) − ε/V Σ_v log p_n(v)

The logits of real tokens are computed in slices. Each slice is overwritten by the gradient of the loss with respect to
its logits, which is at once multiplied into the gradients of the hidden states and of the output matrix. So the whole
[tokens × vocabulary] matrix never exists; a plain cross-entropy holds three (logits, log-probabilities, gradient).

On a CPU with a C compiler, the step from logits to gradient is done row by row (`loss.c`); otherwise it takes about ten
passes in torch. The two round differently in the last bits.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from regard.core.devices import lower_precision
from regard.tasks._native_loss import native_loss

# A slice of this size stays within a core's cache share and keeps matrix products efficient (measured).
SLICE = 4_000_000


def linear_cross_entropy(
    hidden: Tensor, weight: Tensor, labels: Tensor, *, bias: Tensor | None = None, smoothing: float = 0.0
) -> Tensor:
    """The summed loss of logits = hidden [N,D] · weight [V,D]ᵀ + bias [V] against labels [N]."""
    return _LinearCrossEntropy.apply(hidden, weight, bias, labels, smoothing)  # type: ignore[no-untyped-call]


def label_log_probs(hidden: Tensor, weight: Tensor, labels: Tensor, *, bias: Tensor | None = None) -> Tensor:
    """log p(label) [N], without a gradient."""
    parts = []
    with torch.no_grad():
        for rows, wanted in zip(*_slices(hidden, labels, weight.shape[0]), strict=True):
            logits = (rows @ weight.T).float()
            if bias is not None:
                logits += bias
            parts.append(logits.gather(1, wanted[:, None]).squeeze(1) - logits.logsumexp(1))
    return torch.cat(parts) if parts else hidden.new_zeros(0)


def matrix(output: nn.Module) -> tuple[Tensor, Tensor | None]:
    """The weight [V,D] of an output layer, and its bias [V], if any."""
    weight, bias = output.weight, getattr(output, "bias", None)
    assert isinstance(weight, Tensor)
    return weight, bias if isinstance(bias, Tensor) else None


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, labels: Tensor, smoothing: float
    ) -> Tensor:
        vocab, total = weight.shape[0], hidden.new_zeros((), dtype=torch.float32)
        needed = any(ctx.needs_input_grad)
        # Under autocast only matrix products use the lower precision, never probabilities.
        low = lower_precision(weight) or weight.dtype
        matrix, lose = weight.to(low), native_loss(low, weight.device)
        grads: list[Tensor] = []
        grad_weight = torch.zeros_like(weight) if needed else None
        grad_bias = torch.zeros_like(bias) if needed and bias is not None else None
        parts = _slices(hidden.to(low), labels, vocab)
        # All slices use the same memory: it stays in the cache, and the system need not clear new pages for each.
        room = matrix.new_empty(len(parts[0][0]) if parts[0] else 0, vocab)
        for rows, wanted in zip(*parts, strict=True):
            logits = torch.mm(rows, matrix.T, out=room[: len(rows)])
            if lose is None:
                logits = logits.to(weight.dtype)
                total += _lose(logits, wanted, smoothing, bias)
            else:
                total += lose(logits, wanted, smoothing, bias)
            if grad_bias is not None:
                grad_bias += logits.sum(0, dtype=grad_bias.dtype)
            if grad_weight is not None:
                by_logits = logits.to(low)
                grads.append((by_logits @ matrix).to(hidden.dtype))
                if low == weight.dtype:
                    grad_weight.addmm_(by_logits.T, rows)
                else:
                    grad_weight += by_logits.T @ rows
        if needed:
            ctx.save_for_backward(torch.cat(grads) if grads else torch.zeros_like(hidden), grad_weight, grad_bias)
        return total

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        scaled = (None if saved is None else saved * grad.to(saved.dtype) for saved in ctx.saved_tensors)
        return (*scaled, None, None)


def _lose(logits: Tensor, wanted: Tensor, smoothing: float, bias: Tensor | None) -> Tensor:
    """The summed loss of some rows; their logits are overwritten by the gradient of the loss."""
    if bias is not None:
        logits += bias
    # Smoothing's Σ_v log p(v) needs the mean logit; it and the label's logit are read before they are overwritten.
    mean, right = logits.mean(1), logits.gather(1, wanted[:, None]).squeeze(1)
    peak = logits.amax(1, keepdim=True)
    mass = logits.sub_(peak).exp_().sum(1, keepdim=True)
    loss = ((mass.log() + peak).squeeze(1) - (1 - smoothing) * right - smoothing * mean).sum()
    logits.div_(mass).sub_(smoothing / logits.shape[1])
    logits[torch.arange(len(wanted)), wanted] -= 1 - smoothing
    return loss


def _slices(hidden: Tensor, labels: Tensor, vocab: int) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    rows = max(1, SLICE // vocab)
    if hidden.shape[0] == 0:
        return (), ()
    return hidden.split(rows), labels.split(rows)
