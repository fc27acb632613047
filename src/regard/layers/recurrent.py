"""Recurrent networks: Elman, GRU and LSTM; stacked, in one or both directions.

Elman (Elman 1990)
    h_t = tanh(W x_t + V h_{t−1} + b)
GRU (Cho et al. 2014)
    r_t = σ(W_r x_t + V_r h_{t−1} + b_r)            how much of the past the candidate sees
    z_t = σ(W_z x_t + V_z h_{t−1} + b_z)            how much of the past stays
    n_t = tanh(W_n x_t + b_n + r_t ⊙ (V_n h_{t−1} + b'_n))
    h_t = z_t ⊙ h_{t−1} + (1 − z_t) ⊙ n_t
LSTM (Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al. 2000, without peepholes)
    i_t, f_t, o_t = σ(W x_t + V h_{t−1} + b)        one W, V, b for each of the three
    g_t = tanh(W_g x_t + V_g h_{t−1} + b_g)
    c_t = f_t ⊙ c_{t−1} + i_t ⊙ g_t
    h_t = o_t ⊙ tanh(c_t)

h is `hidden`, c is `cell`. W is torch's `weight_ih`, V its `weight_hh`, with gates stacked by rows in the order r z n
and i f g o. b is `bias_ih` + `bias_hh`; torch keeps two vectors, though only b_n and b'_n of the GRU must be separate.

Where we differ: Cho et al. write V_n (r_t ⊙ h_{t−1}); torch's GRU resets after the matrix product, so that one product
serves all gates. The state is a dictionary of batch-first tensors [B, L, D], L = layers × directions (layer 0 forward,
layer 0 backward, layer 1 forward, …), so beam search can reorder any state along dimension 0. Initialisation: each
gate's V orthogonal, W Xavier-uniform, biases zero except the LSTM's forget gate, whose two biases sum to 1 (Jozefowicz
et al. 2015), so that a new network keeps its past.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from regard.core.devices import full_precision, lower_precision
from regard.core.errors import ShapeError, UnknownName, UsageError

RecurrentState = dict[str, Tensor]

_KINDS: dict[str, Callable[..., nn.RNNBase]] = {"elman": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}
_FORGET = 1  # the LSTM's second gate


class Recurrent(nn.Module):
    """Runs over whole sequences with `forward`, or one input at a time with `step`.

    `dropout` acts between layers, so a single layer has no dropout.
    """

    def __init__(
        self,
        kind: str,
        d_input: int,
        d_hidden: int,
        *,
        n_layers: int = 1,
        bidirectional: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if kind not in _KINDS:
            raise UnknownName("recurrent kind", kind, _KINDS)
        self.kind, self.bidirectional, self.d_hidden = kind, bidirectional, d_hidden
        self._names = ("hidden", "cell") if kind == "lstm" else ("hidden",)
        self.n_states = n_layers * (1 + bidirectional)
        self.d_output = d_hidden * (1 + bidirectional)
        self.cells = _KINDS[kind](
            d_input,
            d_hidden,
            num_layers=n_layers,
            bidirectional=bidirectional,
            dropout=dropout if n_layers > 1 else 0.0,
            batch_first=True,
        )
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        for name, parameter in self.cells.named_parameters():
            gates = parameter.chunk(len(parameter) // self.d_hidden)
            if name.startswith("bias"):
                parameter.zero_()
                if self.kind == "lstm" and name.startswith("bias_ih"):
                    gates[_FORGET].fill_(1.0)
            else:
                for gate in gates:
                    (nn.init.orthogonal_ if name.startswith("weight_hh") else nn.init.xavier_uniform_)(gate)

    def empty_state(self, batch: int) -> RecurrentState:
        """The zero state, before any input."""
        weight = next(self.cells.parameters())
        return {name: weight.new_zeros(batch, self.n_states, self.d_hidden) for name in self._names}

    def forward(
        self,
        x_BTD: Float[Tensor, "B T D"],
        *,
        lengths: Int[Tensor, " B"] | None = None,
        state: RecurrentState | None = None,
    ) -> tuple[Float[Tensor, "B T Dout"], RecurrentState]:
        """The top layer's outputs at every step, and the state after each row's last input.

        Inputs beyond a row's length are ignored, in both directions, and their outputs are zeros. A row without any
        input keeps its initial state, which is zeros if none was given.
        """
        if self.kind == "lstm" and lower_precision(x_BTD) is not None:
            # On CPUs without AVX-512 torch refuses an LSTM in bfloat16 (seen on an AMD EPYC with AVX2, torch 2.13).
            with full_precision(x_BTD):
                wide = None if state is None else {name: part.float() for name, part in state.items()}
                return self.forward(x_BTD.float(), lengths=lengths, state=wide)
        start = self._start(state, len(x_BTD))
        if 0 in x_BTD.shape[:2]:
            return x_BTD.new_zeros(*x_BTD.shape[:2], self.d_output), start
        if lengths is not None:
            return self._run_padded(x_BTD, _on_cpu(lengths, x_BTD), start)
        out_BTD, end = self.cells(x_BTD, self._to_torch(start))
        return out_BTD, self._from_torch(end)

    def step(self, x_BD: Float[Tensor, "B D"], state: RecurrentState) -> tuple[Float[Tensor, "B Dout"], RecurrentState]:
        """One input for each row; gives the same numbers as `forward` on the whole sequence."""
        if self.bidirectional:
            raise UsageError(
                "a bidirectional network cannot run step by step",
                remedy="Its backward half begins at the last input; pass the whole sequence to forward.",
            )
        if self.kind == "lstm":
            with full_precision(x_BD):
                return self._lstm_step(x_BD.float() if lower_precision(x_BD) is not None else x_BD, state)
        out_BTD, state = self.forward(x_BD[:, None], state=state)
        return out_BTD[:, 0], state

    def _lstm_step(self, x_BD: Tensor, state: RecurrentState) -> tuple[Tensor, RecurrentState]:
        """One step with single cells: torch's LSTM packs its weights at each call, which takes longer than the products
        of one step."""
        state = {name: part.to(x_BD.dtype) for name, part in self._start(state, len(x_BD)).items()}
        hidden, cells = [], []
        for layer in range(self.n_states):
            weights = [
                getattr(self.cells, f"{name}_l{layer}") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
            ]
            before = [state[name][:, layer] for name in self._names]
            h_BD, c_BD = torch.lstm_cell(x_BD, before, *weights)
            hidden.append(h_BD)
            cells.append(c_BD)
            x_BD = F.dropout(h_BD, self.cells.dropout, self.training)
        return hidden[-1], {"hidden": torch.stack(hidden, 1), "cell": torch.stack(cells, 1)}

    def _run_padded(self, x_BTD: Tensor, lengths_B: Tensor, start: RecurrentState) -> tuple[Tensor, RecurrentState]:
        """Run on packed sequences, so that padding is not computed. Torch cannot pack empty rows, so they run one step,
        and its result is discarded."""
        empty_B11 = (lengths_B == 0).to(x_BTD.device)[:, None, None]
        packed = pack_padded_sequence(
            x_BTD.masked_fill(empty_B11, 0.0), lengths_B.clamp(min=1), batch_first=True, enforce_sorted=False
        )
        packed_out, end = self.cells(packed, self._to_torch(start))
        out_BTD, _ = pad_packed_sequence(packed_out, batch_first=True, total_length=x_BTD.shape[1])
        state = {name: torch.where(empty_B11, start[name], after) for name, after in self._from_torch(end).items()}
        return out_BTD.masked_fill(empty_B11, 0.0), state

    def _start(self, state: RecurrentState | None, batch: int) -> RecurrentState:
        if state is None:
            return self.empty_state(batch)
        expected = dict.fromkeys(self._names, (batch, self.n_states, self.d_hidden))
        got = {name: tuple(tensor.shape) for name, tensor in state.items()}
        if got != expected:
            raise ShapeError(
                f"the state does not fit this {self.kind} network",
                got=got,
                expected=expected,
                remedy="Begin with empty_state(batch) and pass on the state that forward or step returns.",
            )
        return state

    def _to_torch(self, state: RecurrentState) -> Tensor | tuple[Tensor, ...]:
        parts_LBD = tuple(state[name].transpose(0, 1).contiguous() for name in self._names)
        return parts_LBD if len(parts_LBD) > 1 else parts_LBD[0]

    def _from_torch(self, end: Tensor | tuple[Tensor, ...]) -> RecurrentState:
        parts_LBD = (end,) if isinstance(end, Tensor) else end
        return {name: part.transpose(0, 1) for name, part in zip(self._names, parts_LBD, strict=True)}


def _on_cpu(lengths: Tensor, x_BTD: Tensor) -> Tensor:
    """Check the lengths and move them to the CPU, where torch's packing needs them."""
    batch, time = x_BTD.shape[:2]
    lengths_B = lengths.cpu()
    if lengths_B.shape != (batch,) or lengths_B.min() < 0 or lengths_B.max() > time:
        raise ShapeError(
            "the lengths do not fit the sequences",
            got=lengths_B.tolist(),
            expected=f"{batch} numbers from 0 to {time}",
        )
    return lengths_B
