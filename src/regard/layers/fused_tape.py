"""A decoder's tape-LSTM that also attends to the tape of a source (Cheng, Dong and Lapata 2016, section 4).

γ_j and α_j are the source's hidden states and cells; x_t, h~_t, c~_t belong to the target (`layers/tape.py`). Inter-
attention reads the whole source at each step:

    b_j^t = uᵀ tanh(W_γ γ_j + q_t)      p_j^t = softmax_j(b_j^t)      γ~_t = Σ_j p_j^t γ_j      α~_t = Σ_j p_j^t α_j

    shallow    q_t = W_s h_{t−1} + b_s, and the step reads [x_t; γ~_t] in place of x_t (Bahdanau et al. 2015)
    deep       q_t = W_x x_t + W_γ~ γ~_{t−1}
               r_t = σ(W_r [γ~_t; x_t])
               c_t = r_t ⊙ α~_t + f_t ⊙ c~_t + i_t ⊙ ĉ_t

W_γ is `source_key`, u is the `v` of `source_score`. Shallow: W_s is `ask`, and `context` holds the columns of the
step's input matrix for γ~_t. Deep: W_x and the part of W_r for x_t are the rows of `source_input`; W_γ~ and the part of
W_r for γ~_t are the rows of `source_read`, so that one product with γ~_t serves the gate of step t and the query of
step t + 1. `asked` is the vector that the next query depends on, h_{t−1} or γ~_{t−1}. It begins with zeros, as the tape
begins empty.

A step costs O(t + m) for a source of m words. The tape has no limit here: it holds one sentence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention import Mask, attend
from regard.core import taps
from regard.core.devices import full_precision, lower_precision
from regard.core.groups import Groups
from regard.layers.recurrent import RecurrentState
from regard.layers.tape import Matched, TapeLstm

Fusion = Literal["shallow", "deep"]
Step = tuple[Tensor, Tensor, Tensor, Tensor]
WHOLE = 1 << 30
"""A span longer than any text."""


@dataclass(frozen=True, eq=False)
class SourceTape:
    """Keys [R,1,S,A] and values [R,1,S,·] of R sources, and the mask `real` [R,S] that is False at padding.

    With `groups` several rows read from one source; otherwise row b reads from source b."""

    keys: Tensor
    values: Tensor
    real: Tensor
    groups: Groups | None = None


class FusedTape(TapeLstm):
    """The state is that of a tape-LSTM and `asked` [B,1,D]. Source and target have the same width."""

    def __init__(self, d_input: int, d_hidden: int, *, fusion: Fusion, d_attention: int | None = None) -> None:
        super().__init__(d_input, d_hidden, span=WHOLE, d_attention=d_attention)
        self.fusion, self.source_site = fusion, "cross"
        asked = self.d_attention
        self.source_key = nn.Linear(d_hidden, asked, bias=False)
        self.source_score = Matched(asked)
        if fusion == "deep":
            self.source_input = nn.Linear(d_input, asked + d_hidden)
            self.source_read = nn.Linear(d_hidden, asked + d_hidden, bias=False)
        else:
            self.ask = nn.Linear(d_hidden, asked)
            self.context = nn.Linear(d_hidden, asked + 4 * d_hidden, bias=False)
        nn.init.uniform_(self.source_score.v, -(asked**-0.5), asked**-0.5)

    def prepare(self, hidden: Float[Tensor, "R S D"], cell: Float[Tensor, "R S D"]) -> tuple[Tensor, Tensor]:
        """The keys and the values of sources with these tapes."""
        values = torch.cat([hidden, cell], -1) if self.fusion == "deep" else hidden
        return self.source_key(hidden).unsqueeze(1), values.unsqueeze(1)

    def empty_state(self, batch: int, length: int = 0) -> RecurrentState:
        return {**super().empty_state(batch, length), "asked": self.input.weight.new_zeros(batch, 1, self.d_hidden)}

    def states(
        self,
        x_BTD: Float[Tensor, "B T D"],
        source: SourceTape,
        *,
        state: RecurrentState | None = None,
        real: Tensor | None = None,
    ) -> RecurrentState:
        """`hidden`, `cell`, `read` and `asked` after every step [B,T,D]. `real` is True for the entries of the given
        tape that have been written."""
        if lower_precision(x_BTD) is not None:
            with full_precision(x_BTD):
                wide = SourceTape(source.keys.float(), source.values.float(), source.real, source.groups)
                return self.states(x_BTD.float(), wide, state=state, real=real)
        start = self.empty_state(len(x_BTD)) if state is None else state
        run = self._deep if self.fusion == "deep" else self._shallow
        parts = [torch.stack(steps, 1) for steps in zip(*run(x_BTD, source, start, real), strict=True)]
        return dict(zip(("hidden", "cell", "read", "asked"), parts, strict=True))

    def _deep(self, x_BTD: Tensor, source: SourceTape, start: RecurrentState, real: Tensor | None) -> list[Step]:
        width, asked = self.d_hidden, self.d_attention
        tape, ahead = self.begin(start, real)
        source_ahead, steps = self.source_read(start["asked"][:, 0]), list[Step]()
        pairs = zip(self.input(x_BTD).unbind(1), self.source_input(x_BTD).unbind(1), strict=True)
        for given, source_given in pairs:
            seen = self._look_at(source, source_given[:, :asked] + source_ahead[:, :asked])
            source_ahead = self.source_read(seen[:, :width])
            gate = torch.sigmoid(source_given[:, asked:] + source_ahead[:, asked:])
            hidden, cell, read, ahead = self.advance(tape, given, ahead, gate * seen[:, width:])
            steps.append((hidden, cell, read, seen[:, :width]))
        return steps

    def _shallow(self, x_BTD: Tensor, source: SourceTape, start: RecurrentState, real: Tensor | None) -> list[Step]:
        tape, ahead = self.begin(start, real)
        hidden, steps = start["asked"][:, 0], list[Step]()
        for given in self.input(x_BTD).unbind(1):
            seen = self._look_at(source, self.ask(hidden))
            hidden, cell, read, ahead = self.advance(tape, given + self.context(seen), ahead)
            steps.append((hidden, cell, read, hidden))
        return steps

    def _look_at(self, source: SourceTape, query_BA: Tensor) -> Tensor:
        """γ~_t, concatenated with α~_t if the fusion is deep."""
        query, groups = query_BA[:, None, None], source.groups
        context = attend(
            query if groups is None else groups.together(query),
            source.keys,
            source.values,
            score=self.source_score,
            mask=Mask(keys=source.real),
            site=self.source_site,
            axes=taps.Axes("target", "source"),
        ).context
        return (context if groups is None else groups.apart(context))[:, 0, 0]
