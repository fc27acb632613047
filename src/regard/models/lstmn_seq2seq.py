"""Encoder–decoder of two memory networks (Cheng, Dong and Lapata 2016, section 4), for translation.

    γ_j^l, α_j^l = tape-LSTM(D(γ_j^{l−1})),  γ_j^0 = E_s[source word j]                    `layers/tape.py`
    h_t^l = fused tape-LSTM(D(h_t^{l−1}); γ^l, α^l),  h_t^0 = E_t[y_{t−1}]                 `layers/fused_tape.py`
    s~_t = tanh(W D(h_t^L) + b)        logits = E_t s~_t

Both sides attend to their own tapes (intra-attention). At each step every layer of the decoder also attends to the tape
of the encoder's layer with the same number (inter-attention). `fusion` is as in the paper: `shallow` reads the attended
source as an input, `deep` adds the source's cells to the target's memory through a gate. E_s and E_t are
`source_embedding` and `target_embedding`, W is `combine`.

Where we differ: the paper gives no output layer for two sequences; here it is that of `seq2seq`, tied to E_t. The
decoder's tape begins empty: all information about the source comes through inter-attention. A step costs O(t + m) for a
source of m words, so a sentence costs O(n²).

Sites: `encoder.L.tape` and `decoder.L.tape` (attention to earlier words), `decoder.L.cross` (attention to the source).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field
from torch import Tensor, nn

from regard.core import taps
from regard.core.config import Config
from regard.core.output import Output
from regard.core.state import Rows, State
from regard.layers.dropout import Dropout
from regard.layers.embedding import TiedOutput, TokenEmbedding
from regard.layers.fused_tape import WHOLE, FusedTape, Fusion, SourceTape
from regard.layers.recurrent import RecurrentState
from regard.layers.tape import TapeLstm


class LstmnSeq2seqConfig(Config):
    source_vocab: int = Field(gt=0)
    target_vocab: int = Field(gt=0)
    d_embedding: int = Field(256, gt=0)
    d_hidden: int = Field(256, gt=0)
    n_layers: int = Field(1, gt=0)
    d_attention: int | None = Field(None, gt=0, description="width in which states are compared; None: d_hidden")
    fusion: Fusion = "deep"
    dropout: float = Field(0.2, ge=0, lt=1)


SIZES: dict[str, dict[str, Any]] = {
    "tiny": {"d_embedding": 128, "d_hidden": 128},
    "small": {"d_embedding": 256, "d_hidden": 256},
}


class LstmnSeq2seq(nn.Module):
    Config = LstmnSeq2seqConfig
    SIZES = SIZES

    def __init__(self, config: LstmnSeq2seqConfig) -> None:
        super().__init__()
        self.config = config
        self.longest: int | None = None
        self.source_embedding = TokenEmbedding(config.source_vocab, config.d_embedding)
        self.target_embedding = TokenEmbedding(config.target_vocab, config.d_embedding)
        self.dropout = Dropout(config.dropout)
        hidden, asked = config.d_hidden, config.d_attention
        widths = [config.d_embedding, *[hidden] * (config.n_layers - 1)]
        encoder = [TapeLstm(width, hidden, span=WHOLE, d_attention=asked) for width in widths]
        decoder = [FusedTape(width, hidden, fusion=config.fusion, d_attention=asked) for width in widths]
        self.encoder, self.decoder = nn.ModuleList(encoder), nn.ModuleList(decoder)
        self.combine = nn.Linear(hidden, config.d_embedding)
        self.output = TiedOutput(self.target_embedding, bias=False)
        for number, (reader, writer) in enumerate(zip(encoder, decoder, strict=True)):
            reader.site, reader.axes = f"encoder.{number}.tape", ("later source", "earlier source")
            writer.site, writer.axes = f"decoder.{number}.tape", ("later target", "earlier prefix")
            writer.source_site = f"decoder.{number}.cross"
        self.coverage_site: str | None = f"decoder.{config.n_layers - 1}.cross"

    def forward(
        self, source: Int[Tensor, "B S"], source_mask: Bool[Tensor, "B S"], target: Int[Tensor, "B T"]
    ) -> Output:
        """States before the output layer, and logits of the next token."""
        tapes = [SourceTape(keys, values, source_mask) for keys, values in self._encode(source)]
        x = taps.point("decoder.input", self.target_embedding(target), "prefix")
        for number, (layer, tape) in enumerate(zip(self.decoder, tapes, strict=True)):
            assert isinstance(layer, FusedTape)
            x = taps.point(f"decoder.{number}", layer.states(self.dropout(x), tape)["hidden"], "prefix")
        out = self._combined(x)
        return Output(out, lambda: self.output(out))

    def _encode(self, source: Int[Tensor, "B S"]) -> list[tuple[Tensor, Tensor]]:
        """The keys and values that each layer of the decoder attends to. Padding is on the right and has no effect."""
        x, prepared = taps.point("encoder.input", self.source_embedding(source), "source"), []
        for number, (reader, writer) in enumerate(zip(self.encoder, self.decoder, strict=True)):
            assert isinstance(writer, FusedTape)
            states, tape = reader(self.dropout(x))
            x = taps.point(f"encoder.{number}", states, "source")
            prepared.append(writer.prepare(x, tape["cell"]))
        return prepared

    def _combined(self, states: Tensor) -> Tensor:
        return self.dropout(torch.tanh(self.combine(self.dropout(states))))

    def head_logits(self, hidden: Float[Tensor, "B T D"]) -> Float[Tensor, "B T V"]:
        """The logits as if this layer of the decoder were the last."""
        return self.output(self._combined(hidden))

    def more_sides(self, sides: Mapping[str, list[list[str]]]) -> dict[str, list[list[str]]]:
        """The labels of the tapes: the first word attends to no word, and no word attends to the last."""
        return {
            "later source": [row[1:] for row in sides["source"]],
            "earlier source": [row[:-1] for row in sides["source"]],
            "later target": [row[1:] for row in sides["target"]],
            "earlier prefix": [row[:-1] for row in sides["prefix"]],
        }

    @property
    def vocab_size(self) -> int:
        """The size of the target vocabulary."""
        return self.config.target_vocab

    def new_state(self, *, sources: int, paths: int, capacity: int) -> State:
        return State(sources=sources, paths=paths, capacity=capacity, device=self.target_embedding.weight.device)

    def read(self, inputs: Mapping[str, Tensor], state: State, sources_R: Tensor) -> None:
        state.put_sources("real", sources_R, inputs["source_mask"], dim=1)
        for number, (keys, values) in enumerate(self._encode(inputs["source"])):
            state.put_sources(f"{number}.keys", sources_R, keys, dim=2)
            state.put_sources(f"{number}.values", sources_R, values, dim=2)

    def step(
        self, tokens_NT: Int[Tensor, "N T"], counts_N: Tensor, paths_N: Tensor, state: State
    ) -> Float[Tensor, "N V"]:
        rows = state.rows(paths_N, counts_N, tokens_NT.shape[1])
        x, real = self.target_embedding(tokens_NT), rows.of_sources("real")
        for number, layer in enumerate(self.decoder):
            assert isinstance(layer, FusedTape)
            keys, values = (rows.of_sources(f"{number}.{name}") for name in ("keys", "values"))
            before, written = self._tape(rows.sub(f"decoder.{number}"), layer)
            made = layer.states(x, SourceTape(keys, values, real, rows.groups), state=before, real=written)
            self._keep(rows.sub(f"decoder.{number}"), made)
            x = made["hidden"]
        rows.advance()
        return self.output(self._combined(rows.last(x)))

    def _tape(self, rows: Rows, layer: FusedTape) -> tuple[RecurrentState, Tensor | None]:
        """The state of these paths, and which entries of their tapes have been written; None: all."""
        held, empty = int(rows.starts_N.max()), layer.empty_state(len(rows.paths_N))
        state = {name: rows.get(name, empty[name]) for name in ("read", "asked")}
        for name in ("hidden", "cell"):
            state[name] = rows.room(name, 1, layer.d_hidden, like=empty[name])[rows.paths_N, 0, :held]
        if rows.uniform_start is not None:
            return state, None
        return state, torch.arange(held, device=rows.starts_N.device) < rows.starts_N[:, None]

    def _keep(self, rows: Rows, made: RecurrentState) -> None:
        for name in ("hidden", "cell"):
            rows.extend(name, made[name].unsqueeze(1))
        for name in ("read", "asked"):
            rows.put(name, rows.last(made[name]).unsqueeze(1))
