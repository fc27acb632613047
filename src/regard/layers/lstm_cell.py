"""An LSTM cell for loops that cannot run in parallel: with attention, a step's input depends on the state before it.

    i, f, g, o = W x_t + U [z_t; h_{t−1}] + b        c_t = σ(f) ⊙ c_{t−1} + σ(i) ⊙ tanh(g)        h_t = σ(o) ⊙ tanh(c_t)

x_t is known for all steps beforehand, so W x + b is one product for all steps (`prepare`). z_t is the context that the
step attends to. The equations are those of `layers.recurrent`, split in two. Torch's LSTM packs its weights again at
each call, which takes longer than the products of one step.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

_FORGET = 1


class LstmCell(nn.Module):
    def __init__(self, d_input: int, d_context: int, d_hidden: int) -> None:
        super().__init__()
        self.d_context, self.d_hidden = d_context, d_hidden
        self.input = nn.Linear(d_input, 4 * d_hidden)
        self.rest = nn.Linear(d_context + d_hidden, 4 * d_hidden, bias=False)
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """As in `Recurrent`: orthogonal recurrent weights, and a forget gate with bias 1, which keeps the past."""
        for gate in self.input.weight.chunk(4):
            nn.init.xavier_uniform_(gate)
        for gate in self.rest.weight.chunk(4):
            nn.init.xavier_uniform_(gate[:, : self.d_context])
            nn.init.orthogonal_(gate[:, self.d_context :])
        nn.init.zeros_(self.input.bias)
        self.input.bias.chunk(4)[_FORGET].fill_(1.0)

    def prepare(self, x: Float[Tensor, "*B D"]) -> Float[Tensor, "*B G"]:
        """The contribution of the inputs to the gates, for any number of steps."""
        gates: Tensor = self.input(x)
        return gates

    def forward(
        self,
        prepared: Float[Tensor, "B G"],
        context: Float[Tensor, "B Z"],
        hidden: Float[Tensor, "B H"],
        cell: Float[Tensor, "B H"],
    ) -> tuple[Float[Tensor, "B H"], Float[Tensor, "B H"]]:
        """The new hidden state and cell."""
        gates = prepared + self.rest(torch.cat([context, hidden], -1))
        written, kept, new, shown = gates.chunk(4, -1)
        cell = torch.sigmoid(kept) * cell + torch.sigmoid(written) * torch.tanh(new)
        return torch.sigmoid(shown) * torch.tanh(cell), cell
