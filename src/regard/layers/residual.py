"""A sublayer with its residual connection, in one of two orders, or without it.

pre     x + dropout(f(norm(x)))      trains deep stacks without warm-up (Xiong et al. 2020)
post    norm(x + dropout(f(x)))      the original Transformer and BERT
none    norm(dropout(f(x)))          no residual connection, to show its effect
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from regard.core.errors import UnknownName
from regard.layers.dropout import Dropout

ORDERS = ("none", "post", "pre")


class Residual(nn.Module):
    """`residual(x, f)` wraps any f: [.., D] → [.., D]."""

    def __init__(self, norm: nn.Module, *, order: str = "pre", dropout: float = 0.0) -> None:
        super().__init__()
        if order not in ORDERS:
            raise UnknownName("residual order", order, ORDERS)
        self.norm, self.order, self.dropout = norm, order, Dropout(dropout)

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        if self.order == "pre":
            return x + self.dropout(sublayer(self.norm(x)))
        changed = self.dropout(sublayer(x))
        return self.norm(changed if self.order == "none" else x + changed)
