"""SNAIL's attention block (Mishra et al. 2018): causal attention whose result is concatenated with the input.

    q, k = W_q x + b_q, W_k x + b_k of width K        v = W_v x + b_v of width V
    y_t  = [x_t ; Σ_{s ≤ t} softmax_s(q_t · k_s / √K) v_s]

K is `d_key`, V is `d_value`. There is one head, and no output projection: later layers mix the features.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.attend import attend
from regard.attention.masks import causal
from regard.core import taps


class JoinedAttention(nn.Module):
    def __init__(self, d_input: int, d_key: int, d_value: int) -> None:
        super().__init__()
        self.d_key, self.d_value, self.d_output = d_key, d_value, d_input + d_value
        self.query, self.key = nn.Linear(d_input, d_key), nn.Linear(d_input, d_key)
        self.value = nn.Linear(d_input, d_value)
        self.site, self.axes = "attention", taps.Axes()

    def forward(self, x_BTD: Float[Tensor, "B T D"], branches: int = 1) -> Float[Tensor, "B T Dout"]:
        """The last `branches` steps are alternatives: each sees itself and the steps before all alternatives."""
        query, keys, values = (layer(x_BTD)[:, None] for layer in (self.query, self.key, self.value))
        mask = causal() if branches == 1 else _branched(x_BTD.shape[1], branches)
        read = attend(query, keys, values, mask=mask, site=self.site, axes=self.axes).context
        return torch.cat([x_BTD, read[:, 0]], -1)

    def fill(self, past_BTD: Float[Tensor, "B T D"], time: int, width: int, memory_BTM: Float[Tensor, "B T M"]) -> int:
        """Write the attention's result at one step after its first `width` features; return the new width.

        `memory_BTM` holds the keys and values of earlier steps, and gets those of this step.
        """
        x_BD = past_BTD[:, time, :width]
        memory_BTM[:, time] = torch.cat([self.key(x_BD), self.value(x_BD)], -1)
        keys, values = memory_BTM[:, None, : time + 1].split([self.d_key, self.d_value], -1)
        read = attend(self.query(x_BD)[:, None, None], keys, values, site=None).context
        past_BTD[:, time, width : width + self.d_value] = read[:, 0, 0]
        return width + self.d_value


def _branched(steps: int, branches: int) -> Tensor:
    """The mask [T,T] of the steps that each step may see, if the last `branches` steps are alternatives."""
    places = torch.arange(steps)
    return (places <= places[:, None]) & ((places < steps - branches) | (places == places[:, None]))
