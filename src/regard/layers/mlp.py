"""A stack of fully connected layers: h_i = dropout(φ(W_i h_{i-1} + b_i)).

Each layer's output is a named place (`taps.point`), so that tools can read it: `encoder.1` is that of the second layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from jaxtyping import Float
from torch import Tensor, nn

from regard.core import taps
from regard.layers.dropout import Dropout
from regard.layers.feedforward import activate, check_activation


class Mlp(nn.Module):
    """d_input → widths[0] → … → widths[-1], or the input itself if there are no widths."""

    def __init__(
        self, d_input: int, widths: Sequence[int], *, activation: str = "relu", dropout: float = 0.0, site: str
    ) -> None:
        super().__init__()
        check_activation(activation)
        self.activation, self.site = activation, site
        sizes = [d_input, *widths]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))
        self.dropout = Dropout(dropout)
        self.d_output = sizes[-1]

    def forward(self, x: Float[Tensor, "B T D"], *, first: int = 0, axis: str = "input") -> Float[Tensor, "B T E"]:
        """`first` is the number of the first layer's place; `axis` names the axis that the T states belong to."""
        for number, layer in enumerate(self.layers, first):
            x = taps.point(f"{self.site}.{number}", self.dropout(activate(self.activation, layer(x))), axis)
        return x
