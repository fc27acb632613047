"""A question as one vector: by an LSTM, or by a Transformer encoder.

    lstm           u₀ = the LSTM's last state                         (Yang et al. 2016, eq. 3)
    transformer    u₀ = the mean of the last block's states, over real tokens

Both read word embeddings, which are the states at "question.input". A question without tokens is the zero vector.
"""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention import Mask
from regard.attention.heads import MultiHead
from regard.attention.positions import make_position
from regard.core import taps
from regard.core.pooling import pool
from regard.layers.block import EncoderBlock, stack
from regard.layers.dropout import Dropout
from regard.layers.embedding import TokenEmbedding
from regard.layers.feedforward import FeedForward
from regard.layers.norm import make_norm
from regard.layers.recurrent import Recurrent
from regard.layers.residual import Residual

Kind = Literal["lstm", "transformer"]


class LstmQuestion(nn.Module):
    def __init__(self, vocab_size: int, d_embedding: int, d_model: int, *, n_layers: int, dropout: float) -> None:
        super().__init__()
        self.embedding = TokenEmbedding(vocab_size, d_embedding)
        self.recurrent = Recurrent("lstm", d_embedding, d_model, n_layers=n_layers, dropout=dropout)
        self.dropout = Dropout(dropout)

    def forward(self, ids: Int[Tensor, "B T"], mask: Bool[Tensor, "B T"]) -> Float[Tensor, "B D"]:
        x = taps.point("question.input", self.dropout(self.embedding(ids)))
        states, last = self.recurrent(x, lengths=mask.sum(1))
        taps.point("question.states", states)
        return last["hidden"][:, -1]


class TransformerQuestion(nn.Module):
    def __init__(self, vocab_size: int, d_model: int, *, n_layers: int, n_heads: int, dropout: float) -> None:
        super().__init__()
        self.embedding = TokenEmbedding(vocab_size, d_model, scale=True)
        self.position = make_position(
            "sinusoidal", d_model=d_model, d_head=d_model // n_heads, n_heads=n_heads, max_len=512, bidirectional=True
        )
        self.dropout = Dropout(dropout)

        def residual() -> Residual:
            return Residual(make_norm("layer", d_model), order="pre", dropout=dropout)

        self.blocks = stack(
            lambda: EncoderBlock(MultiHead(d_model, n_heads), FeedForward(d_model, 4 * d_model), residual), n_layers
        )
        self.norm = make_norm("layer", d_model)

    def forward(self, ids: Int[Tensor, "B T"], mask: Bool[Tensor, "B T"]) -> Float[Tensor, "B D"]:
        positions = torch.arange(ids.shape[1], device=ids.device)
        x = taps.point("question.input", self.dropout(self.position.embed(self.embedding(ids), positions)))
        for block in self.blocks:
            x = block(x, mask=Mask(keys=mask), positions=positions)
        return pool(self.norm(x), mask, "mean")
