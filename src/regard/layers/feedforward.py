"""The position-wise feed-forward network: each position by itself goes through a wider layer and back to d_model.

plain    y = W₂ · drop(φ(W₁ x + b₁)) + b₂ (Vaswani et al. 2017, §3.3)
gated    y = W₂ · drop(silu(W_g x + b_g) ⊙ (W₁ x + b₁)) + b₂ (Shazeer 2020)

W₁ is `up` [d_ff, d_model], W₂ is `down`, W_g is `gate`, φ is `activation`:
relu        max(0, x)
gelu        x · Φ(x), with the exact normal distribution Φ (Hendrycks and Gimpel 2016; BERT, ViT)
gelu_tanh   its approximation ½x(1 + tanh(√(2/π)(x + 0.044715 x³))) (GPT-2)
quick_gelu  x · σ(1.702 x), a coarser approximation (CLIP)
silu        x · σ(x)
tanh        tanh(x)
swiglu      the gated form, with the three matrices of Llama

Where we differ: dropout acts on the wide layer, as in the code of Vaswani et al. The dropout that their text describes,
on the output of the sub-layer, belongs to the residual connection. The gated form has three matrices of the requested
size; Shazeer reduces d_ff by a factor of 2/3 to keep the parameter count, which is left to the caller here. Shazeer and
Llama use no biases: `bias=False`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.core.errors import UnknownName
from regard.layers.dropout import Dropout

_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": functools.partial(F.gelu, approximate="tanh"),
    "quick_gelu": lambda x: x * torch.sigmoid(1.702 * x),
    "silu": F.silu,
    "tanh": torch.tanh,
    "swiglu": F.silu,
}


def check_activation(name: str) -> None:
    if name not in _ACTIVATIONS:
        raise UnknownName("activation", name, _ACTIVATIONS)


def activate(name: str, x: Tensor) -> Tensor:
    """φ(x), by name."""
    return _ACTIVATIONS[name](x)


class FeedForward(nn.Module):
    """d_model → d_ff → d_model at each position."""

    def __init__(
        self, d_model: int, d_ff: int, *, activation: str = "relu", dropout: float = 0.0, bias: bool = True
    ) -> None:
        super().__init__()
        check_activation(activation)
        self.activation = activation
        self.gate = nn.Linear(d_model, d_ff, bias=bias) if activation == "swiglu" else None
        self.up = nn.Linear(d_model, d_ff, bias=bias)
        self.down = nn.Linear(d_ff, d_model, bias=bias)
        self.dropout = Dropout(dropout)

    def forward(self, x: Float[Tensor, "*batch D"]) -> Float[Tensor, "*batch D"]:
        activate = _ACTIVATIONS[self.activation]
        wide = activate(self.up(x)) if self.gate is None else activate(self.gate(x)) * self.up(x)
        narrow: Tensor = self.down(self.dropout(wide))
        return narrow

    def extra_repr(self) -> str:
        return f"activation={self.activation}"
