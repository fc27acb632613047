"""Long short-term memory-network (Cheng, Dong and Lapata 2016): a language model or a classifier.

    x_t = E[w_t]        h_t^l = tape-LSTM(D(h_t^{l−1})),  h_t^0 = x_t        logits = W D(h_t^L) + b

This LSTM does not read h_{t−1} and c_{t−1}, but a mix of all its earlier states by intra-attention; the equations are
in `layers/tape.py`. E is `embedding`, the cells are `layers`, W and b are `output`; with `tie` W = E. The head `tokens`
predicts the next word; `classes` predicts the class of the text from the mean of its states. D is dropout between
layers, never from step to step.

A step attends to up to `span` earlier states, so it costs O(span) where a step of an LSTM costs O(1), and a text
shorter than the span costs O(n²). As a language model it reads running text in streams (`data.streams`): a batch begins
with the tape of the batch before it, and gradients end there. `regard explain` shows what each word attended to.

The paper's encoder–decoder with shallow and deep fusion of two tapes is `lstmn_seq2seq`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, Self

import torch
from jaxtyping import Float, Int
from pydantic import Field, model_validator
from torch import Tensor, nn

from regard.core import taps
from regard.core.config import Config
from regard.core.output import Output
from regard.core.pooling import pool
from regard.core.state import Rows, State
from regard.layers.dropout import Dropout
from regard.layers.embedding import TiedOutput, TokenEmbedding
from regard.layers.recurrent import RecurrentState
from regard.layers.tape import TapeLstm
from regard.models._carried import layer_states, to_the_left
from regard.models._unconditional import Unconditional

_TASKS = {"tokens": "language_model", "classes": "classification"}


class LstmnConfig(Config):
    vocab_size: int = Field(gt=0)
    d_embedding: int = Field(200, gt=0)
    d_hidden: int = Field(200, gt=0)
    n_layers: int = Field(1, gt=0)
    d_attention: int | None = Field(None, gt=0, description="width in which states are compared; None: d_hidden")
    span: int = Field(64, gt=0, description="states that the tape holds: how far a word can look back")
    dropout: float = Field(0.0, ge=0, lt=1)
    tie: bool = Field(False, description="the output layer is the transposed embedding")
    spread: float = Field(0.0, ge=0, description="all weights start uniform in ± this; 0: usual")
    head: Literal["tokens", "classes"] = "tokens"
    n_labels: int = Field(2, gt=0)
    max_len: int = Field(2048, gt=0, description="tokens of a text to classify; a language model has no limit")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.tie and self.head == "tokens" and self.d_hidden != self.d_embedding:
            raise ValueError("with tie, d_hidden must be d_embedding")
        return self


# "small" has the widths of Zaremba's small LSTM; "paper" those of the language models of Cheng et al.
SIZES: dict[str, dict[str, Any]] = {
    "small": {"d_embedding": 200, "d_hidden": 200, "n_layers": 2, "spread": 0.1},
    "paper": {"d_embedding": 150, "d_hidden": 300, "n_layers": 1},
}


class Lstmn(Unconditional):
    Config = LstmnConfig
    SIZES = SIZES
    coverage_site: str | None = None
    carries: ClassVar[bool] = True
    """The language model can continue from the state of an earlier call."""
    reads_cls: ClassVar[bool] = False
    needs_words: ClassVar[bool] = True

    @staticmethod
    def task_of(config: LstmnConfig) -> str:
        return _TASKS[config.head]

    def __init__(self, config: LstmnConfig) -> None:
        super().__init__()
        self.config = config
        self.longest: int | None = None
        self.embedding = TokenEmbedding(config.vocab_size, config.d_embedding)
        self.dropout = Dropout(config.dropout)
        widths = [config.d_embedding, *[config.d_hidden] * (config.n_layers - 1)]
        layers = [
            TapeLstm(width, config.d_hidden, span=config.span, d_attention=config.d_attention) for width in widths
        ]
        self.layers = nn.ModuleList(layers)
        if config.head == "classes":
            self.output: nn.Module = nn.Linear(config.d_hidden, config.n_labels)
        else:
            self.output = TiedOutput(self.embedding) if config.tie else nn.Linear(config.d_hidden, config.vocab_size)
        self._side = "decoder" if config.head == "tokens" else "encoder"
        for number, layer in enumerate(layers):
            layer.site = f"{self._side}.{number}.tape"
        if config.spread:
            for parameter in self.parameters():
                nn.init.uniform_(parameter, -config.spread, config.spread)

    def forward(
        self,
        input_ids: Int[Tensor, "B T"],
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        *,
        carried: Mapping[str, Tensor] | None = None,
    ) -> Output:
        """Logits of the next word at each step, or of the classes [B,C].

        `carried` is the `state` that an earlier call returned. Padding may be on the left or on the right; a batch with
        padding returns no state.
        """
        real = None if attention_mask is None or bool(attention_mask.all()) else attention_mask.bool()
        ids, back = (input_ids, None) if real is None else to_the_left(input_ids, real)
        hidden, ends = self._run(ids, layer_states(carried, len(self.layers)))
        if back is not None:
            hidden = hidden.gather(1, back[..., None].expand_as(hidden))
        if real is not None:
            hidden = hidden * real.unsqueeze(-1)
        parts = {f"{n}.{name}": part for n, end in enumerate(ends) for name, part in end.items()}
        state = parts if real is None else None
        if self.config.head == "classes":
            pooled = pool(hidden, real, "mean")
            return Output(hidden, self.output(pooled), pooled, state=state)
        return Output(hidden, lambda: self.output(hidden), state=state)

    def _run(
        self,
        ids: Tensor,
        starts: Sequence[RecurrentState | None],
        lengths: Tensor | None = None,
        written: Tensor | None = None,
    ) -> tuple[Tensor, list[RecurrentState]]:
        """The last layer's states after dropout, and the state of each layer after each row's last word."""
        x, ends = taps.point(f"{self._side}.input", self.embedding(ids)), []
        for number, (layer, start) in enumerate(zip(self.layers, starts, strict=True)):
            x, end = layer(self.dropout(x), state=start, real=written, lengths=lengths)
            x = taps.point(f"{self._side}.{number}", x)
            ends.append(end)
        return self.dropout(x), ends

    def head_logits(self, hidden: Float[Tensor, "B T D"]) -> Tensor:
        """The logits as if this layer were the last, for texts without padding."""
        logits: Tensor = self.output(pool(hidden, None, "mean") if self.config.head == "classes" else hidden)
        return logits

    def sides(
        self, labels: Sequence[Sequence[str]], input_ids: Tensor, attention_mask: Tensor | None = None
    ) -> dict[str, list[list[str]]]:
        """The labels of the model's axes: from the second word on, each word attends to the words before it."""
        return {"later": [list(row[1:]) for row in labels], "earlier": [list(row[:-1]) for row in labels]}

    def step(
        self, tokens_NT: Int[Tensor, "N T"], counts_N: Tensor, paths_N: Tensor, state: State
    ) -> Float[Tensor, "N V"]:
        rows = state.rows(paths_N, counts_N, tokens_NT.shape[1])
        starts, written = self._tapes(rows, len(tokens_NT))
        hidden, ends = self._run(tokens_NT, starts, None if rows.uniform_start is not None else counts_N, written)
        for number, end in enumerate(ends):
            for name, part in end.items():
                room = part.new_zeros(len(part), (1 if name == "read" else self.config.span) - part.shape[1], 1)
                rows.put(f"{number}.{name}", torch.cat([room.expand(-1, -1, part.shape[-1]), part], 1))
        rows.advance()
        logits: Tensor = self.output(rows.last(hidden))
        return logits

    def _tapes(self, rows: Rows, count: int) -> tuple[list[RecurrentState], Tensor | None]:
        """The state of each layer, and which entries of the tapes have been written; None: all.

        A path's tape ends with its newest state, and zeros stand before its oldest. If all rows have the same length,
        these zeros are cut off.
        """
        span, starts = self.config.span, list[RecurrentState]()
        held = None if rows.uniform_start is None else min(rows.uniform_start, span)
        for number, layer in enumerate(self.layers):
            assert isinstance(layer, TapeLstm)
            empty = layer.empty_state(count, span)
            full = {name: rows.get(f"{number}.{name}", first) for name, first in empty.items()}
            if held is not None:
                full |= {name: full[name][:, span - held :] for name in ("hidden", "cell")}
            starts.append(full)
        if held is not None:
            return starts, None
        return starts, torch.arange(span, device=rows.starts_N.device) >= span - rows.starts_N[:, None]
