"""Causal convolution over time, and the blocks that SNAIL builds from it (Mishra et al. 2018).

causal      y_t = b + Σ_j W_j x_{t − j·dilation}, j = 0 … kernel−1, and x before the start is zero
dense       y = [x ; tanh(conv₁(x)) ⊙ σ(conv₂(x))]: the input stays, `n_filters` features are added
temporal    ⌈log₂ T⌉ dense blocks with kernel 2 and dilations 1, 2, 4, …

W_j are the taps of `convolution.weight`, the last one being j = 0; D of the paper is `n_filters`, its T is `seq_len`,
its R is `dilation`. After n dense blocks an output sees the last 2ⁿ inputs, its own included: all T of them.

Where we differ: the paper's pseudo-code counts i from 1 and dilates by 2ⁱ, so 2, 4, …: output t would see only every
second input. WaveNet (van den Oord et al. 2016), the source of the block, begins with 1, and so do we.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.core.errors import UsageError


class CausalConvolution(nn.Module):
    """Output t depends only on inputs t, t − dilation, …"""

    def __init__(self, d_input: int, d_output: int, *, kernel: int = 2, dilation: int = 1) -> None:
        super().__init__()
        for name, value in (("kernel", kernel), ("dilation", dilation)):
            if value < 1:
                raise UsageError(f"{name} of a causal convolution is out of range", got=value, expected="1 or more")
        self.d_output = d_output
        self.reach = (kernel - 1) * dilation
        self.convolution = nn.Conv1d(d_input, d_output, kernel, dilation=dilation)

    def forward(self, x_BTD: Float[Tensor, "B T D"]) -> Float[Tensor, "B T Dout"]:
        # Zeros on the left only: padding both sides and cutting the right would compute unused outputs.
        x_BDT = F.pad(x_BTD.transpose(1, 2), (self.reach, 0))
        y_BDT: Tensor = self.convolution(x_BDT)
        return y_BDT.transpose(1, 2)


class GatedCausalBlock(nn.Module):
    """SNAIL's dense block: the input, joined with gated features of the past."""

    def __init__(self, d_input: int, n_filters: int, *, kernel: int = 2, dilation: int = 1) -> None:
        super().__init__()
        self.d_output = d_input + n_filters
        self.feature = CausalConvolution(d_input, n_filters, kernel=kernel, dilation=dilation)
        self.gate = CausalConvolution(d_input, n_filters, kernel=kernel, dilation=dilation)

    def forward(self, x_BTD: Float[Tensor, "B T D"]) -> Float[Tensor, "B T Dout"]:
        added_BTD = torch.tanh(self.feature(x_BTD)) * torch.sigmoid(self.gate(x_BTD))
        return torch.cat([x_BTD, added_BTD], dim=-1)


class TemporalConvolutions(nn.Module):
    """SNAIL's TC block: enough dense blocks for the last of `seq_len` outputs to see the first input.

    Longer sequences also run; their outputs see the last 2ⁿ ≥ `seq_len` inputs. A `seq_len` of 1 needs no block.
    """

    def __init__(self, d_input: int, seq_len: int, n_filters: int) -> None:
        super().__init__()
        if seq_len < 1:
            raise UsageError("sequence length is out of range", got=seq_len, expected="1 or more")
        n_blocks = (seq_len - 1).bit_length()  # ⌈log₂ seq_len⌉ without rounding errors
        self.blocks = nn.ModuleList(
            GatedCausalBlock(d_input + i * n_filters, n_filters, dilation=2**i) for i in range(n_blocks)
        )
        self.d_output = d_input + n_blocks * n_filters

    def forward(self, x_BTD: Float[Tensor, "B T D"]) -> Float[Tensor, "B T Dout"]:
        for block in self.blocks:
            x_BTD = block(x_BTD)
        return x_BTD
