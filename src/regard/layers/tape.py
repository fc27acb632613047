"""An LSTM that reads a tape of its own states (Cheng, Dong and Lapata 2016, the LSTMN).

    a_i^t = vᵀ tanh(W_h h_i + W_x x_t + W_h~ h~_{t−1})        s_i^t = softmax_i(a_i^t),  i < t
    h~_t = Σ_i s_i^t h_i        c~_t = Σ_i s_i^t c_i
    i_t, f_t, o_t = σ(W x_t + V h~_t + b)        ĉ_t = tanh(W_c x_t + V_c h~_t + b_c)
    c_t = f_t ⊙ c~_t + i_t ⊙ ĉ_t        h_t = o_t ⊙ tanh(c_t)

The tape holds the states h_i (`hidden`) and c_i (`cell`); h~_t is `read`. W_x and W with their biases are the rows of
`input`, W_h~ and V those of `read`. Products with x are computed for all steps at once, and one product with h~_t
serves the gates of step t and the query of step t + 1. W_h is `key`, applied once to each state, when it is written.

Cost: step t attends to all states before it, so a step costs O(t) and a text of n words O(n²), where an LSTM costs O(1)
and O(n). Where we differ: the tape keeps the last `span` states, so that a step costs at most O(span) and the memory is
bounded; the paper's tape holds the whole sentence. `d_attention` is the width of v, by default that of the states. For
the first word the tape is empty, and h~ and c~ are zeros.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention import Mask, attend
from regard.core import taps
from regard.core.devices import full_precision, lower_precision
from regard.layers.recurrent import RecurrentState

_FORGET = 1  # the second gate


class Matched(nn.Module):
    """vᵀ tanh(q + k): the additive score of a query and keys that are projected already."""

    same_width = True
    by_index = False

    def __init__(self, width: int) -> None:
        super().__init__()
        self.v = nn.Parameter(torch.empty(width))

    def as_dot(self, query: Tensor, keys: Tensor) -> None:
        return None

    def prepare(self, keys: Tensor) -> Tensor:
        return keys

    def compare(self, query: Tensor, prepared: Tensor) -> Tensor:
        return torch.tanh(query.unsqueeze(-2) + prepared.unsqueeze(-3)) @ self.v

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        return self.compare(query, keys)


@dataclass(eq=False)
class Tape:
    """The keys [B,K,A] and states [B,K,2D] of the last words; `first` is the position of the oldest word."""

    keys: Tensor
    states: Tensor
    real: Tensor | None
    span: int
    first: int = 0

    def write(self, key: Tensor, hidden: Tensor, cell: Tensor) -> None:
        cut = self.keys.shape[1] >= self.span
        self.first += cut
        self.keys = torch.cat([self.keys[:, 1:] if cut else self.keys, key.unsqueeze(1)], 1)
        state = torch.cat([hidden, cell], -1).unsqueeze(1)
        self.states = torch.cat([self.states[:, 1:] if cut else self.states, state], 1)
        if self.real is not None:
            real = self.real[:, 1:] if cut else self.real
            self.real = torch.cat([real, real.new_ones(len(real), 1)], 1)


class TapeLstm(nn.Module):
    """Runs over sequences [B,T,D]. Its state is a dictionary: `hidden` and `cell` [B,K,D], K ≤ span, `read` [B,1,D]."""

    def __init__(self, d_input: int, d_hidden: int, *, span: int, d_attention: int | None = None) -> None:
        super().__init__()
        self.d_hidden, self.d_attention, self.span = d_hidden, d_attention or d_hidden, span
        self.input = nn.Linear(d_input, self.d_attention + 4 * d_hidden)
        self.read = nn.Linear(d_hidden, self.d_attention + 4 * d_hidden, bias=False)
        self.key = nn.Linear(d_hidden, self.d_attention, bias=False)
        self.score = Matched(self.d_attention)
        self.site, self.axes = "tape", ("later", "earlier")
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        widths = [self.d_attention, *[self.d_hidden] * 4]
        for part in self.input.weight.split(widths):
            nn.init.xavier_uniform_(part)
        for part in self.read.weight.split(widths):
            nn.init.orthogonal_(part)
        nn.init.xavier_uniform_(self.key.weight)
        nn.init.uniform_(self.score.v, -(self.d_attention**-0.5), self.d_attention**-0.5)
        nn.init.zeros_(self.input.bias)
        self.input.bias.split(widths)[1 + _FORGET].fill_(1.0)

    def empty_state(self, batch: int, length: int = 0) -> RecurrentState:
        """The state before any input. Its tape has `length` entries of zeros."""
        zeros = self.input.weight.new_zeros
        tape = {name: zeros(batch, length, self.d_hidden) for name in ("hidden", "cell")}
        return {**tape, "read": zeros(batch, 1, self.d_hidden)}

    def forward(
        self,
        x_BTD: Float[Tensor, "B T D"],
        *,
        state: RecurrentState | None = None,
        real: Bool[Tensor, "B K"] | None = None,
        lengths: Int[Tensor, " B"] | None = None,
    ) -> tuple[Float[Tensor, "B T D_hidden"], RecurrentState]:
        """The states at every step, and the state after each row's last input.

        `real` is True for the entries of the given tape that have been written; by default all. Inputs past a row's
        length are read as well, but their outputs come after the row's own outputs and are not part of its state.
        """
        if lower_precision(x_BTD) is not None:
            with full_precision(x_BTD):
                return self.forward(x_BTD.float(), state=state, real=real, lengths=lengths)
        start = self.empty_state(len(x_BTD)) if state is None else state
        hidden, cell, read = self._run(x_BTD, start, real)
        made = {"hidden": hidden, "cell": cell}
        tape = {name: torch.cat([start[name], part], 1) for name, part in made.items()}
        kept = {name: _last(part, self.span, start[name].shape[1], lengths) for name, part in tape.items()}
        reads = torch.cat([start["read"], read], 1)
        return hidden, {**kept, "read": _last(reads, 1, 1, lengths)}

    def _run(self, x_BTD: Tensor, start: RecurrentState, real: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """h, c and h~ at every step [B,T,D]."""
        tape, ahead = self.begin(start, real)
        outputs: list[tuple[Tensor, Tensor, Tensor]] = []
        for given in self.input(x_BTD).unbind(1):
            hidden, cell, read, ahead = self.advance(tape, given, ahead)
            outputs.append((hidden, cell, read))
        if not outputs:
            empty = x_BTD.new_zeros(len(x_BTD), 0, self.d_hidden)
            return empty, empty, empty
        hidden, cell, read = (torch.stack(parts, 1) for parts in zip(*outputs, strict=True))
        return hidden, cell, read

    def begin(self, start: RecurrentState, real: Tensor | None) -> tuple[Tape, Tensor]:
        """The tape of a state, and the product with its last h~ for the next step."""
        states = torch.cat([start["hidden"], start["cell"]], -1)
        return Tape(self.key(start["hidden"]), states, real, self.span), self.read(start["read"][:, 0])

    def advance(
        self, tape: Tape, given: Tensor, ahead: Tensor, more: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Run one step and write it to the tape; return h_t, c_t, h~_t, and the product with h~_t for the next step.

        `given` is the product with the input; `more` [B,D] is added to the cell."""
        width, asked = self.d_hidden, self.d_attention
        seen = self._look(tape, given[:, :asked] + ahead[:, :asked])
        ahead = self.read(seen[:, :width])
        hidden, cell = _gated(given[:, asked:] + ahead[:, asked:], seen[:, width:], more)
        tape.write(self.key(hidden), hidden, cell)
        return hidden, cell, seen[:, :width], ahead

    def _look(self, tape: Tape, query_BA: Tensor) -> Tensor:
        """h~ and c~, concatenated [B,2D]."""
        if not tape.keys.shape[1]:
            return query_BA.new_zeros(len(query_BA), tape.states.shape[-1])
        mask = None if tape.real is None else Mask(keys=tape.real)
        keys, states = tape.keys.unsqueeze(1), tape.states.unsqueeze(1)
        axes = taps.Axes(*self.axes, first_key=tape.first)
        query = query_BA[:, None, None]
        return attend(query, keys, states, score=self.score, mask=mask, site=self.site, axes=axes).context[:, 0, 0]


def _gated(gates: Tensor, before: Tensor, more: Tensor | None) -> tuple[Tensor, Tensor]:
    """h_t and c_t from the sums inside the gates (in the order i f o ĉ), c~_t, and `more`, which is added to the
    cell."""
    width = before.shape[-1]
    keep_in, forget, out = torch.sigmoid(gates[:, : 3 * width]).chunk(3, -1)
    kept = forget * before if more is None else torch.addcmul(more, forget, before)
    cell = torch.addcmul(kept, keep_in, torch.tanh(gates[:, 3 * width :]))
    return out * torch.tanh(cell), cell


def _last(x_BKD: Tensor, most: int, before: int, lengths: Tensor | None) -> Tensor:
    """The last `most` entries of each row, which has `before` old entries and `lengths` new ones. If `lengths` is None,
    no row has padding."""
    if lengths is None:
        return x_BKD[:, -most:]
    most = min(most, x_BKD.shape[1])
    places_BK = (before + lengths[:, None] - most + torch.arange(most, device=x_BKD.device)).clamp_min(0)
    return x_BKD.gather(1, places_BK.unsqueeze(-1).expand(-1, -1, x_BKD.shape[-1]))
