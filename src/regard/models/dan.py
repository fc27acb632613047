"""Deep averaging network (Iyyer et al. 2015): the mean of the words' vectors, then a few layers.

    av = Σ_t r_t E[word_t] / Σ_t r_t,   r_t ~ Bernoulli(1 − word_dropout) in training, else 1
    h_i = φ(W_i h_{i-1} + b_i),  h_0 = av          logits = W h + b

With `head: tokens` it is a language model: the mean at t is that of the words up to t, and the logits are those of
the next word. Word order is lost. Where we differ: if every word of a text was dropped, none is dropped.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor, nn

from regard.core import taps
from regard.core.config import Config
from regard.core.output import Output
from regard.core.state import State
from regard.layers.dropout import Dropout
from regard.layers.embedding import TokenEmbedding
from regard.layers.mlp import Mlp
from regard.models._unconditional import Unconditional

_TASKS = {"tokens": "language_model", "classes": "classification"}


class DanConfig(Config):
    vocab_size: int = Field(gt=0)
    d_embedding: int = Field(300, gt=0)
    hidden: tuple[int, ...] = Field((300, 300), max_length=100, description="widths of the layers after the mean")
    activation: str = "tanh"
    word_dropout: float = Field(0.3, ge=0, lt=1)
    dropout: float = Field(0.0, ge=0, lt=1, description="of hidden layers")
    max_len: int = Field(512, gt=0, description="words of a text that are read")
    head: Literal["tokens", "classes"] = "tokens"
    n_labels: int = Field(2, gt=0)


SIZES: dict[str, dict[str, Any]] = {
    "paper": {"d_embedding": 300, "hidden": (300, 300, 300), "word_dropout": 0.3},
    "small": {"d_embedding": 50, "hidden": (100, 100)},
}


class Dan(Unconditional):
    Config = DanConfig
    usual_method = "words"
    SIZES = SIZES
    coverage_site: str | None = None
    reads_cls = False
    needs_words = True
    whole_sides = ("text",)

    def __init__(self, config: DanConfig) -> None:
        super().__init__()
        self.config = config
        self.longest: int | None = None
        self.embedding = TokenEmbedding(config.vocab_size, config.d_embedding)
        self.drop_words = Dropout(config.word_dropout)
        self.side = "encoder" if config.head == "classes" else "decoder"
        self.net = Mlp(
            config.d_embedding, config.hidden, activation=config.activation, dropout=config.dropout, site=self.side
        )
        answers = config.n_labels if config.head == "classes" else config.vocab_size
        self.output = nn.Linear(self.net.d_output, answers)

    @staticmethod
    def task_of(config: DanConfig) -> str:
        return _TASKS[config.head]

    def forward(
        self, input_ids: Int[Tensor, "B T"], attention_mask: Tensor | None = None, position_ids: Tensor | None = None
    ) -> Output:
        """Logits of the classes [B,C], or of the next token at each position."""
        real = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        vectors = taps.point(f"{self.side}.input", self.embedding(input_ids))
        kept = self._kept(real.to(vectors.dtype)).unsqueeze(-1)
        if self.config.head == "classes":
            mean = (vectors * kept).sum(1, keepdim=True) / kept.sum(1, keepdim=True).clamp_min(1e-9)
            state = self.net(taps.point("encoder.mean", mean, "text"), axis="text")
            return Output(vectors, self.output(state).squeeze(1), pooled=state.squeeze(1))
        means = (vectors * kept).cumsum(1) / kept.cumsum(1).clamp_min(1)
        hidden = self.net(taps.point("decoder.mean", means))
        return Output(hidden, lambda: self.output(hidden))

    def head_logits(self, hidden: Float[Tensor, "B T D"]) -> Tensor | None:
        """The logits as if this layer were the last; None if its width does not fit."""
        return self.output(hidden) if hidden.shape[-1] == self.output.in_features else None

    def step(
        self, tokens_NT: Int[Tensor, "N T"], counts_N: Tensor, paths_N: Tensor, state: State
    ) -> Float[Tensor, "N V"]:
        rows = state.rows(paths_N, counts_N, tokens_NT.shape[1])
        real_NT = torch.arange(tokens_NT.shape[1], device=tokens_NT.device) < counts_N[:, None]
        added = (self.embedding(tokens_NT) * real_NT.unsqueeze(-1)).sum(1)
        total = rows.get("sum", torch.zeros_like(added)) + added
        rows.put("sum", total)
        lengths = (rows.starts_N + counts_N).unsqueeze(-1)
        rows.advance()
        logits: Tensor = self.output(self.net((total / lengths).unsqueeze(1)))[:, 0]
        return logits

    def _kept(self, real: Tensor) -> Tensor:
        """1 for words that count, 0 for padding and dropped words [B,T]."""
        kept = (self.drop_words(real) > 0).to(real.dtype)
        return torch.where(kept.sum(1, keepdim=True) > 0, kept, real)
