"""Multi-head attention (Vaswani et al. 2017), with grouped (Ainslie et al. 2023) and multi-query (Shazeer 2019) heads.

    head_h = attend(x W^Q_h, m W^K_h, m W^V_h)        output = [head_1; …; head_H] W^O

In self-attention m = x. In cross-attention m is a memory whose keys and values are prepared once for all decoding
steps. Splitting into heads and merging them are views. Past keys and values are in a `State`, whose rows are passed in.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.attend import attend
from regard.attention.choosers import make_chooser
from regard.attention.masks import Mask
from regard.attention.positions import Position
from regard.attention.scores import make_score
from regard.attention.stages import share_heads
from regard.core import taps
from regard.core.contracts import Chooser, Score
from regard.core.errors import ShapeError
from regard.core.groups import Groups
from regard.core.state import Rows


class KeyValues(NamedTuple):
    """Keys and values of a memory, split into heads [B,H',K,E]."""

    keys: Tensor
    values: Tensor


class MultiHead(nn.Module):
    """Attention with `n_heads` heads; `n_kv_heads` < `n_heads` shares keys and values among groups of heads.

    A head is d_model / n_heads wide, or `d_head`.
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        n_kv_heads: int | None = None,
        d_head: int | None = None,
        d_memory: int | None = None,
        score: str | Score = "scaled_dot",
        chooser: str | Chooser = "softmax",
        position: Position | None = None,
        dropout: float = 0.0,
        bias: bool = True,
    ) -> None:
        super().__init__()
        n_kv_heads = n_kv_heads or n_heads
        if (d_head is None and d_model % n_heads) or n_heads % n_kv_heads:
            raise ShapeError(
                "the heads do not divide evenly",
                got=f"d_model={d_model}, n_heads={n_heads}, n_kv_heads={n_kv_heads}",
                expected="d_model a multiple of n_heads, n_heads a multiple of n_kv_heads",
            )
        self.n_heads, self.n_kv_heads, self.d_head = n_heads, n_kv_heads, d_head or d_model // n_heads
        d_memory = d_memory or d_model
        self.query = nn.Linear(d_model, n_heads * self.d_head, bias=bias)
        self.key = nn.Linear(d_memory, n_kv_heads * self.d_head, bias=bias)
        self.value = nn.Linear(d_memory, n_kv_heads * self.d_head, bias=bias)
        self.output = nn.Linear(n_heads * self.d_head, d_model, bias=bias)
        self.score = make_score(score, self.d_head, self.d_head) if isinstance(score, str) else score
        self.chooser = make_chooser(chooser) if isinstance(chooser, str) else chooser
        self.position, self.dropout, self.site = position, dropout, "attention"
        self.axes = taps.Axes()
        """The names of its query and key axes; the model that contains this module sets them."""
        for part in (self.query, self.key, self.value, self.output):
            nn.init.xavier_uniform_(part.weight)
            if bias:
                nn.init.zeros_(part.bias)

    def prepare(self, memory: Float[Tensor, "B K M"]) -> KeyValues:
        """Project a memory to keys and values, once for any number of queries."""
        return KeyValues(self._split(self.key(memory)), self._split(self.value(memory)))

    def forward(
        self,
        x: Float[Tensor, "B Q D"],
        memory: KeyValues | None = None,
        *,
        mask: Tensor | Mask | None = None,
        positions: Tensor | None = None,
        rows: Rows | None = None,
        groups: Groups | None = None,
    ) -> Float[Tensor, "B Q D"]:
        """Attend to `memory`. Without a memory, attend to x itself and, with `rows`, to all earlier x of each path.

        With `groups` the memory has one row for each source, and all rows of x that read from a source are its queries.
        """
        query = self._split(self.query(x))
        if memory is None:
            query, memory = self._with_past(query, self.prepare(x), positions, rows)
        if groups is not None:
            query = groups.together(query)
        attended = attend(
            query,
            memory.keys,
            memory.values,
            score=self.score,
            mask=mask,
            bias=self.position.bias if self.position is not None and self.position.biased else None,
            chooser=self.chooser,
            dropout=self.dropout if self.training else 0.0,
            site=self.site,
            axes=self.axes,
            value_path=self.value_path,
        )
        context = attended.context if groups is None else groups.apart(attended.context)
        return self.output(context.transpose(1, 2).flatten(2))

    def value_path(self, values: Float[Tensor, "B H K E"]) -> Float[Tensor, "B G K D"]:
        """T of each head: its values through its slice of the output projection (without the bias)."""
        slices_HED = self.output.weight.T.unflatten(0, (self.n_heads, self.d_head))
        return share_heads(values, self.n_heads).expand(-1, self.n_heads, -1, -1) @ slices_HED

    def _with_past(
        self, query: Tensor, new: KeyValues, positions: Tensor | None, rows: Rows | None
    ) -> tuple[Tensor, KeyValues]:
        keys, values = new
        if self.position is not None:
            if positions is None:
                positions = torch.arange(query.shape[2], device=query.device) if rows is None else rows.positions_NT
            query, keys = self.position.rotate(query, positions), self.position.rotate(keys, positions)
        if rows is not None:
            keys, values = rows.extend("keys", keys), rows.extend("values", values)
        return query, KeyValues(keys, values)

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (-1, self.d_head)).transpose(1, 2)
