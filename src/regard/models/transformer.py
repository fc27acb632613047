"""The Transformer, encoder and decoder (Vaswani et al. 2017).

    encoder    x = E_s(source)·√d + PE     then N × (self-attention, feed-forward)
    decoder    y = E_t(target)·√d + PE     then N × (masked self-attention, cross-attention, feed-forward)
    logits     W y, with W the embedding of the target (tied)

`order="post"` is the order of the paper; `"pre"` needs no warm-up and has a last norm on each side; `"none"` leaves out
the residual connections. Any position scheme may replace the sinusoids. Schemes that act on the query, the keys or the
scores are shared by the layers of one side and do not act in cross-attention. With `share="all"` both sides have one
vocabulary, and both embeddings and the output are one matrix.

Marian's and Pegasus' folders are read as this model (`_marian.py`, `_pegasus.py`), with all sines before all cosines
(`halves`) and a bias of the logits (`output_bias`). A model with other settings of these two options is written in
their format after its weights are changed (`_equivalents.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, cast

import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field
from torch import Tensor, nn

from regard.attention import Mask, causal
from regard.attention.causal_positions import step_positions
from regard.attention.heads import KeyValues, MultiHead
from regard.attention.positions import Position, is_bounded, make_position
from regard.attention.positions.sinusoidal import Sinusoidal
from regard.core import taps
from regard.core.config import Config
from regard.core.errors import ShapeError
from regard.core.output import Output
from regard.core.state import Rows, State
from regard.layers.block import DecoderBlock, EncoderBlock, stack
from regard.layers.dropout import Dropout
from regard.layers.embedding import TiedOutput, TokenEmbedding
from regard.layers.feedforward import FeedForward
from regard.layers.norm import make_norm
from regard.layers.residual import Residual
from regard.models._marian import MARIAN
from regard.models._pegasus import PEGASUS


class TransformerConfig(Config):
    source_vocab: int = Field(gt=0)
    target_vocab: int = Field(gt=0)
    d_model: int = Field(512, gt=0)
    n_heads: int = Field(8, gt=0)
    d_ff: int = Field(2048, gt=0)
    n_decoder_heads: int | None = Field(None, gt=0, description="None: n_heads on both sides")
    d_decoder_ff: int | None = Field(None, gt=0, description="None: d_ff on both sides")
    n_encoder_layers: int = Field(6, gt=0)
    n_decoder_layers: int = Field(6, gt=0)
    dropout: float = Field(0.1, ge=0, lt=1)
    attention_dropout: float = Field(0.0, ge=0, lt=1)
    activation_dropout: float = Field(0.0, ge=0, lt=1)
    activation: str = "relu"
    norm: str = "layer"
    order: Literal["pre", "post", "none"] = "post"
    position: str = "sinusoidal"
    halves: bool = Field(False, description="sinusoidal: all sines before all cosines")
    scale: bool = Field(True, description="embeddings are multiplied by √d_model")
    output_bias: bool = False
    share: Literal["all", "target", "none"] = "all"
    max_len: int = Field(1024, gt=0)


# `base` and `big` are the paper's; `tiny` is the shape published for Multi30k (Wu et al. 2021).
SIZES: dict[str, dict[str, int]] = {
    "tiny": {"d_model": 128, "n_heads": 4, "d_ff": 256, "n_encoder_layers": 4, "n_decoder_layers": 4},
    "small": {"d_model": 256, "n_heads": 4, "d_ff": 1024, "n_encoder_layers": 4, "n_decoder_layers": 4},
    "base": {"d_model": 512, "n_heads": 8, "d_ff": 2048, "n_encoder_layers": 6, "n_decoder_layers": 6},
    "big": {"d_model": 1024, "n_heads": 16, "d_ff": 4096, "n_encoder_layers": 6, "n_decoder_layers": 6},
}


class Transformer(nn.Module):
    Config = TransformerConfig
    SIZES = SIZES
    conversion = (MARIAN, PEGASUS)

    @staticmethod
    def task_of(config: TransformerConfig) -> str:
        """The task of a loaded model."""
        return "translation"

    @staticmethod
    def longest_of(config: TransformerConfig) -> int | None:
        """The longest input of a model with this configuration, in tokens; None: no limit."""
        return config.max_len if is_bounded(config.position) else None

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.source_embedding = TokenEmbedding(config.source_vocab, config.d_model, scale=config.scale)
        if config.share == "all" and config.source_vocab != config.target_vocab:
            raise ShapeError(
                "two vocabularies cannot share one embedding",
                got=f"{config.source_vocab} and {config.target_vocab} tokens",
                remedy="Use one tokenizer for both sides, or share: target.",
            )
        self.target_embedding = (
            self.source_embedding
            if config.share == "all"
            else TokenEmbedding(config.target_vocab, config.d_model, scale=config.scale)
        )
        self.source_position, self.target_position = self._position("encoder"), self._position("decoder")
        self.encoder = stack(self._encoder_block, config.n_encoder_layers)
        self.decoder = stack(self._decoder_block, config.n_decoder_layers)
        last = config.norm if config.order == "pre" else "none"
        self.encoder_norm, self.decoder_norm = make_norm(last, config.d_model), make_norm(last, config.d_model)
        self.dropout = Dropout(config.dropout)
        self.output: nn.Module = (
            nn.Linear(config.d_model, config.target_vocab, bias=config.output_bias)
            if config.share == "none"
            else TiedOutput(self.target_embedding, bias=config.output_bias)
        )
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        taps.name_sites(self)
        self.longest: int | None = self.longest_of(config)
        self.coverage_site: str | None = f"decoder.{config.n_decoder_layers - 1}.cross"

    def forward(
        self, source: Int[Tensor, "B S"], source_mask: Bool[Tensor, "B S"], target: Int[Tensor, "B T"]
    ) -> Output:
        """The states before the output layer at each target position, and logits of the next token."""
        memory, mask = self.encode(source, source_mask), Mask(keys=source_mask)
        prepared = [block.cross.prepare(memory) for block in self._decoder_blocks]
        hidden = self._decode(target, prepared, mask, None)
        return Output(hidden, lambda: self.output(hidden))

    def encode(self, source: Int[Tensor, "B S"], source_mask: Bool[Tensor, "B S"]) -> Float[Tensor, "B S D"]:
        positions = torch.arange(source.shape[1], device=source.device)
        x = self.dropout(self.source_position.embed(self.source_embedding(source), positions))
        x = taps.point("encoder.input", x, "source")
        mask = Mask(keys=source_mask)
        for block in self.encoder:
            x = block(x, mask=mask)
        return self.encoder_norm(x)

    def embed(self, target: Tensor, positions: Tensor) -> Tensor:
        """The vectors that the first decoder block reads."""
        return cast(Tensor, self.dropout(self.target_position.embed(self.target_embedding(target), positions)))

    def head_logits(self, hidden: Float[Tensor, "B T D"]) -> Float[Tensor, "B T V"]:
        """The logits as if this were the output of the last decoder block."""
        return self.output(self.decoder_norm(hidden))

    @property
    def vocab_size(self) -> int:
        """The size of the target vocabulary."""
        return self.config.target_vocab

    def new_state(self, *, sources: int, paths: int, capacity: int) -> State:
        return State(sources=sources, paths=paths, capacity=capacity, device=self.target_embedding.weight.device)

    def read(self, inputs: Mapping[str, Tensor], state: State, sources_R: Tensor) -> None:
        """Encode the sources, and prepare each decoder layer's keys and values once for all decoding steps."""
        memory = self.encode(inputs["source"], inputs["source_mask"])
        state.put_sources("source_mask", sources_R, inputs["source_mask"], dim=1)
        for index, block in enumerate(self._decoder_blocks):
            for name, part in block.cross.prepare(memory)._asdict().items():
                state.put_sources(f"{index}.cross.{name}", sources_R, part, dim=2)

    def step(
        self, tokens_NT: Int[Tensor, "N T"], counts_N: Tensor, paths_N: Tensor, state: State
    ) -> Float[Tensor, "N V"]:
        rows = state.rows(paths_N, counts_N, tokens_NT.shape[1])
        prepared = [
            KeyValues(*(rows.of_sources(f"{index}.cross.{name}") for name in KeyValues._fields))
            for index in range(len(self.decoder))
        ]
        hidden = self._decode(tokens_NT, prepared, Mask(keys=rows.of_sources("source_mask")), rows)
        rows.advance()
        return self.output(rows.last(hidden))

    def _decode(self, target: Tensor, prepared: list[KeyValues], memory_mask: Mask, rows: Rows | None) -> Tensor:
        if rows is None:
            positions, mask = torch.arange(target.shape[1], device=target.device), causal()
        else:
            positions, mask = step_positions(rows)
        x = taps.point("decoder.input", self.embed(target, positions), "prefix")
        for index, (block, memory) in enumerate(zip(self.decoder, prepared, strict=True)):
            layer = None if rows is None else rows.sub(f"{index}.self")
            x = block(x, memory, mask=mask, memory_mask=memory_mask, positions=positions, rows=layer)
        return self.decoder_norm(x)

    @property
    def _decoder_blocks(self) -> list[DecoderBlock]:
        return cast(list[DecoderBlock], list(self.decoder))

    def _heads(self, side: str) -> int:
        config = self.config
        return (config.n_decoder_heads if side == "decoder" else None) or config.n_heads

    def _position(self, side: str) -> Position:
        config, n_heads = self.config, self._heads(side)
        if config.position == "sinusoidal" and config.halves:
            return Sinusoidal(config.d_model, pairs="halves")
        return make_position(
            config.position,
            d_model=config.d_model,
            d_head=config.d_model // n_heads,
            n_heads=n_heads,
            max_len=config.max_len,
            bidirectional=side == "encoder",
        )

    def _attention(self, side: str, position: Position | None) -> MultiHead:
        config = self.config
        return MultiHead(config.d_model, self._heads(side), position=position, dropout=config.attention_dropout)

    def _residual(self) -> Residual:
        config = self.config
        return Residual(make_norm(config.norm, config.d_model), order=config.order, dropout=config.dropout)

    def _feedforward(self, d_ff: int) -> FeedForward:
        config = self.config
        return FeedForward(config.d_model, d_ff, activation=config.activation, dropout=config.activation_dropout)

    def _encoder_block(self) -> EncoderBlock:
        attention = self._attention("encoder", self.source_position)
        attention.axes = taps.Axes("source", "source")
        return EncoderBlock(attention, self._feedforward(self.config.d_ff), self._residual)

    def _decoder_block(self) -> DecoderBlock:
        attention, cross = self._attention("decoder", self.target_position), self._attention("decoder", None)
        # Each step generates a token of the target, and has read the prefix before it.
        attention.axes, cross.axes = taps.Axes("target", "prefix"), taps.Axes("target", "source")
        feedforward = self._feedforward(self.config.d_decoder_ff or self.config.d_ff)
        return DecoderBlock(attention, cross, feedforward, self._residual)
