"""The Neural Turing Machine (Graves, Wayne and Danihelka 2014): a controller that reads and writes a memory.

    h_t  = LSTM([x_t; r_{t−1}], h_{t−1})   or   tanh(W [x_t; r_{t−1}] + b)         `controller`
    k, a = tanh(·)     g, e = σ(·)     β = softplus(·)     γ = 1 + softplus(·)     s = softmax(·)      of W_h h_t + b_h
    w_t  = the four steps of addressing on M_{t−1} (`attention/memory.py`), for all heads at once
    M_t  = M_{t−1} ∘ Π (1 − w e) + Σ w a                                          write heads: erase, then add
    r_t  = w_t M_t                                                                read heads
    y_t  = W_y [h_t; r_t] + b_y                                                   logits of the output bits

M has N = `n_rows` rows of `d_row` numbers, s has the shifts −`reach` … +`reach`; W_h is `heads`, W_y is `output`. The
paper's sizes are N = 128, rows of 20, 100 units, and shifts of −1, 0, 1. Without heads (`n_reads` and `n_writes` 0) it
is the controller alone: a plain LSTM, for comparison.

Where we differ: the paper does not say how a run begins. Here every number of M_0 is `start`, a small constant (Collier
and Beel 2018 learn fastest with it), and w_0, r_0, h_0, c_0 are learned; w_0 begins near row 0, since equal weights on
equal rows stay equal for ever. A read sees the writes of the same step. The keys of all heads are compared with
M_{t−1}.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, Self

import torch
import torch.nn.functional as F
from jaxtyping import Float
from pydantic import Field, model_validator
from torch import Tensor, nn

from regard.attention.memory import Address, locate, read_memory, write
from regard.core import taps
from regard.core.config import Config
from regard.core.devices import full_precision
from regard.core.output import Output

_FOCUS = 6.0  # of the first row's logit in w_0: three quarters of the weight, with 128 rows


class NtmConfig(Config):
    d_input: int = Field(gt=0, le=4096, description="channels of an input step")
    d_output: int = Field(gt=0, le=4096, description="bits of an output step")
    controller: Literal["lstm", "feedforward"] = "lstm"
    d_controller: int = Field(100, gt=0)
    n_rows: int = Field(128, gt=1)
    d_row: int = Field(20, gt=0)
    n_reads: int = Field(1, ge=0)
    n_writes: int = Field(1, ge=0)
    reach: int = Field(1, ge=0, description="shifts go from −reach to +reach")
    start: float = Field(1e-6, gt=0, description="every number of the memory, before the first step")

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if (self.n_reads == 0) != (self.n_writes == 0):
            raise ValueError("a memory needs read heads and write heads; without a memory both are 0")
        if 2 * self.reach + 1 > self.n_rows:
            raise ValueError("reach must be less than half of n_rows")
        return self


# The paper's sizes. For associative recall it used four heads and a feed-forward controller of 256 units.
SIZES: dict[str, dict[str, Any]] = {
    "lstm": {"controller": "lstm", "d_controller": 100},
    "feedforward": {"controller": "feedforward", "d_controller": 100},
    "feedforward_recall": {"controller": "feedforward", "d_controller": 256, "n_reads": 4, "n_writes": 4},
}


class _Step(NamedTuple):
    """The state that one step passes to the next."""

    hidden: Tensor
    cell: Tensor
    reads: Tensor
    weights: Tensor
    memory: Tensor


class Ntm(nn.Module):
    Config = NtmConfig
    SIZES = SIZES

    @staticmethod
    def task_of(config: NtmConfig) -> str:
        return "bits"

    def __init__(self, config: NtmConfig) -> None:
        super().__init__()
        self.config = config
        reads, writes, row, units = config.n_reads, config.n_writes, config.d_row, config.d_controller
        self.n_heads = reads + writes
        self.usual_method = "memory" if self.n_heads else "gradients"
        read = reads * row
        gates = 4 * units if config.controller == "lstm" else units
        kept = units if config.controller == "lstm" else 0
        self.controller_input = nn.Linear(config.d_input, gates)
        self.controller = nn.Linear(read + kept, gates, bias=False)
        # Sizes of [k, a], [g, e], [β, γ] and s, in the order in which `heads` gives them.
        shifts = self.n_heads * (2 * config.reach + 1)
        self._sizes = [self.n_heads * row + writes * row, self.n_heads + writes * row, 2 * self.n_heads, shifts]
        self.heads = nn.Linear(units, sum(self._sizes)) if self.n_heads else None
        self.output = nn.Linear(units + read, config.d_output)
        self.first_hidden = nn.Parameter(torch.zeros(2, kept)) if kept else None
        self.first_reads = nn.Parameter(torch.zeros(read)) if read else None
        self.first_weights = nn.Parameter(torch.zeros(self.n_heads, config.n_rows)) if self.n_heads else None
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        for layer in (self.controller_input, self.controller, self.heads, self.output):
            if layer is not None:
                nn.init.xavier_uniform_(layer.weight)
                if layer.bias is not None:
                    layer.bias.zero_()
        if self.config.controller == "lstm":
            self.controller_input.bias.chunk(4)[1].fill_(1.0)  # the forget gate: a new network keeps its past
        if self.first_weights is not None:
            self.first_weights[:, 0] = _FOCUS

    def forward(self, bits: Float[Tensor, "B T I"]) -> Output:
        """Logits of the output bits of each step [B,T,O]. A step does not see later steps; padding goes at the end."""
        with full_precision(bits):
            x = taps.point("decoder.input", bits.to(self.output.weight.dtype))
            from_input = self.controller_input(x)
            step, states = self._first(len(x)), []
            product = self.controller.weight.t()
            for gates in from_input.unbind(1):
                step = self._advance(step, gates, product)
                states.append(torch.cat([step.hidden, step.reads], 1) if self.n_heads else step.hidden)
            hidden = torch.stack(states, 1) if states else from_input.new_zeros(*x.shape[:2], self.output.in_features)
            hidden = taps.point("decoder.0", hidden)
            return Output(hidden, self.output(hidden))

    def head_logits(self, hidden: Float[Tensor, "B T D"]) -> Tensor | None:
        """The logits as if these were the last states; None if their width does not fit."""
        return self.output(hidden) if hidden.shape[-1] == self.output.in_features else None

    def _first(self, batch: int) -> _Step:
        config, empty = self.config, self.output.weight.new_zeros(batch, 0)
        hidden, cell = (empty, empty) if self.first_hidden is None else self.first_hidden.unbind(0)
        reads = empty if self.first_reads is None else torch.tanh(self.first_reads).expand(batch, -1)
        weights = memory = empty
        if self.first_weights is not None:
            weights = torch.softmax(self.first_weights, -1).expand(batch, -1, -1)
            memory = empty.new_full((batch, config.n_rows, config.d_row), config.start)
        return _Step(hidden.expand(batch, -1), cell.expand(batch, -1), reads, weights, memory)

    def _advance(self, before: _Step, from_input: Tensor, product: Tensor) -> _Step:
        hidden, cell = self._control(before, from_input, product)
        if self.heads is None:
            return before._replace(hidden=hidden, cell=cell)
        config, n, reads, batch = self.config, self.n_heads, self.config.n_reads, len(hidden)
        signed, gates, positive, shifts = self.heads(hidden).split(self._sizes, 1)
        signed, gates, positive = torch.tanh(signed), torch.sigmoid(gates), F.softplus(positive)
        vectors, positive = signed.view(batch, -1, config.d_row), positive.view(batch, 2, n)
        shift = torch.softmax(shifts.view(batch, n, -1), -1)
        address = Address(vectors[:, :n], positive[:, 0], gates[:, :n], shift, positive[:, 1] + 1)
        weights = locate(before.memory, address, before.weights)
        erase = gates[:, n:].view(batch, -1, config.d_row)
        memory = write(before.memory, weights[:, reads:], erase, vectors[:, n:], site="memory.write")
        read = read_memory(memory, weights[:, :reads], site="memory.read")
        return _Step(hidden, cell, read.flatten(1), weights, memory)

    def _control(self, before: _Step, from_input: Tensor, product: Tensor) -> tuple[Tensor, Tensor]:
        if self.config.controller == "feedforward":
            past = torch.addmm(from_input, before.reads, product) if self.n_heads else from_input
            return torch.tanh(past), before.cell
        past = torch.cat([before.reads, before.hidden], 1) if self.n_heads else before.hidden
        sums = torch.addmm(from_input, past, product)
        units = self.config.d_controller
        opened, new = torch.sigmoid(sums[:, : 3 * units]), torch.tanh(sums[:, 3 * units :])
        enter, stay, leave = opened.chunk(3, 1)
        cell = torch.addcmul(stay * before.cell, enter, new)
        return leave * torch.tanh(cell), cell
