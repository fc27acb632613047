"""The base of decoder-only language models: one stack of blocks with a causal mask and a state.

A subclass has `embedding`, `position`, `decoder` (blocks) and `norm`, and defines how tokens become vectors (`embed`).
Its head (`make_head`) predicts the next token or, with `classes`, the class of the text from its last token.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.causal_positions import causal_positions, step_positions
from regard.attention.masks import Mask
from regard.core import taps
from regard.core.output import Output
from regard.core.state import Rows, State
from regard.layers.embedding import TiedOutput, TokenEmbedding
from regard.models._unconditional import Unconditional

Head = Literal["tokens", "classes"]
_TASKS = {"tokens": "language_model", "classes": "classification"}


class Decoder(Unconditional):
    config: Any
    embedding: TokenEmbedding
    decoder: nn.ModuleList
    norm: nn.Module
    output: nn.Module
    """Logits of the next token, or of the classes."""
    reach: int | None = None
    """The number of tokens that a token sees, itself included; None: itself and all tokens before it."""

    @staticmethod
    def task_of(config: Any) -> str:
        """The task of a loaded model."""
        return _TASKS[config.head]

    def make_head(self) -> nn.Module:
        config = self.config
        if config.head == "classes":
            return nn.Linear(config.d_model, config.n_labels, bias=False)
        return TiedOutput(self.embedding) if config.tie else nn.Linear(config.d_model, config.vocab_size, bias=False)

    def forward(
        self,
        input_ids: Int[Tensor, "B T"],
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
    ) -> Output:
        """Logits of the next token at each position, or of the classes [B,C]; real tokens are True or 1 in the mask."""
        hidden = self.states(input_ids, attention_mask, position_ids)
        if self.config.head == "classes":
            return Output(hidden, self.output(last_real_state(hidden, attention_mask)))
        return Output(hidden, lambda: self.output(hidden))

    def states(
        self,
        input_ids: Int[Tensor, "B T"],
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
    ) -> Float[Tensor, "B T D"]:
        """The states before the output layer."""
        positions, mask = causal_positions(input_ids, attention_mask, position_ids, reach=self.reach)
        return self._run(input_ids, positions, mask)

    def _run(self, input_ids: Tensor, positions: Tensor, mask: Mask, rows: Rows | None = None) -> Tensor:
        x = taps.point("decoder.input", self.embed(input_ids, positions))
        for index, block in enumerate(self.decoder):
            layer = None if rows is None else rows.sub(f"{index}.self")
            x = block(x, mask=mask, positions=positions, rows=layer)
        return self.norm(x)

    def head_logits(self, hidden: Float[Tensor, "B T D"]) -> Float[Tensor, "B T V"]:
        """The logits as if this were the output of the last block; with classes, as if the text ended at each token."""
        return self.output(self.norm(hidden))

    def embed(self, input_ids: Tensor, positions: Tensor) -> Tensor:
        """The vectors that the first block reads."""
        return self.embedding(input_ids)

    def step(
        self, tokens_NT: Int[Tensor, "N T"], counts_N: Tensor, paths_N: Tensor, state: State
    ) -> Float[Tensor, "N V"]:
        rows = state.rows(paths_N, counts_N, tokens_NT.shape[1])
        hidden = self._run(tokens_NT, *step_positions(rows, reach=self.reach), rows)
        rows.advance()
        return self.output(rows.last(hidden))

    def verify(
        self, tokens_NT: Int[Tensor, "N T"], counts_N: Tensor, paths_N: Tensor, state: State
    ) -> Float[Tensor, "N T V"]:
        rows = state.rows(paths_N, counts_N, tokens_NT.shape[1])
        hidden = self._run(tokens_NT, *step_positions(rows, reach=self.reach), rows)
        rows.advance()
        return self.output(hidden)


def last_real_state(hidden: Float[Tensor, "B T D"], attention_mask: Tensor | None) -> Float[Tensor, "B D"]:
    """The state of each row's last token that is not padding."""
    if attention_mask is None:
        return hidden[:, -1]
    places_T = torch.arange(1, hidden.shape[1] + 1, device=hidden.device)
    last_B = (attention_mask.bool() * places_T).argmax(1)
    return hidden[torch.arange(len(hidden), device=hidden.device), last_B]
