"""The neural language model over a fixed window (Bengio et al. 2003): the concatenated vectors of the last n-1 words.

    x = (C[w_{t-1}], …, C[w_{t-n+1}])          y = b + U tanh(d + H x)  [ + W x  with `direct` ]          p = softmax(y)

C is `embedding`, H and d are `net`, (U, W) and b are `output`, n-1 is `window`. The window is filled with <s> before
the beginning. More than one width in `hidden` makes the network deeper. Where we differ: the model has dropout, which
the paper did not use, and is trained with Adam in place of plain stochastic gradient descent.
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


class WindowLmConfig(Config):
    vocab_size: int = Field(gt=0)
    window: int = Field(5, gt=0, le=1000, description="words that are seen, the last one included")
    d_embedding: int = Field(100, gt=0)
    hidden: tuple[int, ...] = Field((200,), max_length=100)
    activation: str = "tanh"
    direct: bool = Field(False, description="direct connections from the vectors to the output")
    dropout: float = Field(0.0, ge=0, lt=1, description="of the vectors and of hidden layers")
    bos: int = Field(2, ge=0, description="the token that fills the window before the beginning")
    max_len: int = Field(512, gt=0)
    head: Literal["tokens"] = "tokens"


# Two networks of the paper's tables: for the Brown corpus, and for AP news with direct connections.
SIZES: dict[str, dict[str, Any]] = {
    "brown": {"window": 4, "d_embedding": 30, "hidden": (100,)},
    "ap_news": {"window": 5, "d_embedding": 100, "hidden": (60,), "direct": True},
}


class WindowLm(Unconditional):
    Config = WindowLmConfig
    SIZES = SIZES
    usual_method = "words"
    coverage_site: str | None = None

    def __init__(self, config: WindowLmConfig) -> None:
        super().__init__()
        self.config = config
        self.longest: int | None = None
        self.embedding = TokenEmbedding(config.vocab_size, config.d_embedding)
        self.dropout = Dropout(config.dropout)
        wide = config.window * config.d_embedding
        self.net = Mlp(wide, config.hidden, activation=config.activation, dropout=config.dropout, site="decoder")
        self.output = nn.Linear(self.net.d_output + (wide if config.direct else 0), config.vocab_size)

    @staticmethod
    def task_of(config: WindowLmConfig) -> str:
        return "language_model"

    def forward(
        self, input_ids: Int[Tensor, "B T"], attention_mask: Tensor | None = None, position_ids: Tensor | None = None
    ) -> Output:
        if attention_mask is not None:
            input_ids = input_ids.masked_fill(~attention_mask.bool(), self.config.bos)
        before = input_ids.new_full((len(input_ids), self.config.window - 1), self.config.bos)
        hidden = self._states(before, input_ids)
        return Output(hidden, lambda: self.output(hidden))

    def head_logits(self, hidden: Float[Tensor, "B T D"]) -> Tensor | None:
        """The logits as if this layer were the last; None if its width does not fit."""
        return self.output(hidden) if hidden.shape[-1] == self.output.in_features else None

    def step(
        self, tokens_NT: Int[Tensor, "N T"], counts_N: Tensor, paths_N: Tensor, state: State
    ) -> Float[Tensor, "N V"]:
        rows = state.rows(paths_N, counts_N, tokens_NT.shape[1])
        window = self.config.window
        empty = tokens_NT.new_full((len(tokens_NT), window), self.config.bos)
        joined = torch.cat([rows.get("window", empty), tokens_NT], 1)
        latest = joined.gather(1, counts_N[:, None] + torch.arange(window, device=joined.device))
        rows.put("window", latest)
        rows.advance()
        logits: Tensor = self.output(self._states(latest[:, :-1], latest[:, -1:]))[:, 0]
        return logits

    def _states(self, before: Tensor, ids: Tensor) -> Tensor:
        """The input of the output layer after each of `ids` [B,T,D]; `before` are the window-1 words before them."""
        vectors = taps.point("decoder.input", self.embedding(ids))
        beside_BTDW = torch.cat([self.embedding(before), vectors], 1).unfold(1, self.config.window, 1)
        x = self.dropout(beside_BTDW.flip(-1).transpose(2, 3).flatten(2))
        hidden = self.net(x)
        if not self.config.direct:
            return hidden
        return taps.point("decoder.joined", torch.cat([hidden, x], -1))
