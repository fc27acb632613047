"""A Transformer encoder with [CLS] for classification and regression (Vaswani et al. 2017; Devlin et al. 2019).

    x = E[token] + P[position]          x ← x + attention(norm(x)),  x ← x + W₂ φ(W₁ norm(x))  (N times, `order: pre`)
    logits = W pool(norm(x)) + b        pool: the state of [CLS] (`first`), or the mean or maximum over real tokens

One label is a regression. `pooling: mean` is for comparison: the same network without a special token for the answer.
The model is BERT without segments, pretraining and pooler, with any position scheme. A pair of texts is one row,
separated only by [SEP].
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor, nn

from regard.attention import Mask
from regard.attention.heads import MultiHead
from regard.attention.positions import is_bounded, make_position
from regard.core import taps
from regard.core.config import Config
from regard.core.output import Output
from regard.core.pooling import Pooling, pool
from regard.layers.block import EncoderBlock, stack
from regard.layers.dropout import Dropout
from regard.layers.embedding import TokenEmbedding
from regard.layers.feedforward import FeedForward
from regard.layers.norm import make_norm
from regard.layers.residual import Residual


class EncoderConfig(Config):
    vocab_size: int = Field(gt=0)
    max_len: int = Field(512, gt=0)
    d_model: int = Field(128, gt=0)
    n_layers: int = Field(2, gt=0)
    n_heads: int = Field(4, gt=0)
    d_ff: int = Field(512, gt=0)
    activation: str = "gelu"
    position: str = "sinusoidal"
    order: Literal["pre", "post", "none"] = "pre"
    pooling: Pooling = Field("first", description="first: the state of [CLS]")
    dropout: float = Field(0.1, ge=0, lt=1)
    attention_dropout: float = Field(0.0, ge=0, lt=1)
    head: Literal["classes"] = "classes"
    n_labels: int = Field(2, gt=0)


SIZES: dict[str, dict[str, Any]] = {
    "tiny": {"d_model": 64, "n_layers": 1, "n_heads": 2, "d_ff": 256},
    "small": {"d_model": 128, "n_layers": 2, "n_heads": 4, "d_ff": 512},
    "base": {"d_model": 512, "n_layers": 6, "n_heads": 8, "d_ff": 2048},
}


class Encoder(nn.Module):
    Config = EncoderConfig
    SIZES = SIZES

    @staticmethod
    def task_of(config: EncoderConfig) -> str:
        return "classification"

    @staticmethod
    def longest_of(config: EncoderConfig) -> int | None:
        """The longest input of a model with this configuration, in tokens; None: no limit."""
        return config.max_len if is_bounded(config.position) else None

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = TokenEmbedding(config.vocab_size, config.d_model, scale=True)
        self.position = make_position(
            config.position,
            d_model=config.d_model,
            d_head=config.d_model // config.n_heads,
            n_heads=config.n_heads,
            max_len=config.max_len,
            bidirectional=True,
        )
        self.dropout = Dropout(config.dropout)
        self.encoder = stack(self._block, config.n_layers)
        self.norm = make_norm("layer", config.d_model) if config.order == "pre" else nn.Identity()
        self.head_dropout = Dropout(config.dropout)
        self.classifier = nn.Linear(config.d_model, config.n_labels)
        taps.name_sites(self)
        self.longest: int | None = self.longest_of(config)

    def forward(
        self,
        input_ids: Int[Tensor, "B T"],
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
    ) -> Output:
        """Logits of the classes [B,C]; real tokens are True or 1 in the mask. Segments are not used."""
        positions = torch.arange(input_ids.shape[1], device=input_ids.device)
        x = taps.point("encoder.input", self.dropout(self.position.embed(self.embedding(input_ids), positions)))
        mask = None if attention_mask is None else Mask(keys=attention_mask.bool())
        for block in self.encoder:
            x = block(x, mask=mask, positions=positions)
        hidden = self.norm(x)
        pooled = pool(hidden, attention_mask, self.config.pooling)
        return Output(hidden, self.classifier(self.head_dropout(pooled)), pooled)

    def head_logits(self, hidden: Float[Tensor, "B T D"]) -> Float[Tensor, "B C"]:
        """The logits as if this were the output of the last block, for texts without padding."""
        logits: Tensor = self.classifier(pool(self.norm(hidden), None, self.config.pooling))
        return logits

    def _block(self) -> EncoderBlock:
        config = self.config
        attention = MultiHead(
            config.d_model,
            config.n_heads,
            position=self.position if self.position.inside else None,
            dropout=config.attention_dropout,
        )
        feedforward = FeedForward(config.d_model, config.d_ff, activation=config.activation)
        return EncoderBlock(attention, feedforward, self._residual)

    def _residual(self) -> Residual:
        config = self.config
        return Residual(make_norm("layer", config.d_model), order=config.order, dropout=config.dropout)
