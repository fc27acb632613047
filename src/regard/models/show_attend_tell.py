"""Show, Attend and Tell (Xu et al. 2015): captions by an LSTM that attends to a part of the image for each word.

    e_ti = score(h_{t−1}, a_i),  α_t = softmax(e_t)                   a_i: the encoder's features of cell i, projected
    ẑ_t = β_t Σ_i α_ti a_i,  β_t = σ(f_β h_{t−1})                     soft: all cells, gated by the scalar β
    ẑ_t = β_t a_{s_t},  s_t ~ α_t                                     hard: one sampled cell; in evaluation the best
    h_t, c_t = LSTM([E y_{t−1}; ẑ_t], h_{t−1}, c_{t−1})               h_0, c_0 = tanh of the mean feature's projections
    p(y_t) ∝ exp(L_o tanh(E y_{t−1} + L_h h_t + L_z ẑ_t))

    soft   loss = −log p(y) + λ Σ_i (1 − Σ_t α_ti)²                   "doubly stochastic": a total of 1 on each cell
    hard   loss = −log p(y|s) − λ_r (log p(y|s) − b) log p(s) − λ_e H(s)     REINFORCE with the moving mean b

f_β is `gate`, L_o `output`, L_h `from_hidden`, L_z `from_context`, λ `coverage`, λ_r `reward`, λ_e `entropy`.

Where we differ: features are first projected to `d_memory`; there is a tanh before L_o; the reward of the choice at t
is log p of its own word, which is less noisy than that of the whole caption. `gate` may also be a vector, or none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field
from torch import Tensor, nn

from regard.attention import attend, make_score
from regard.attention.choosers._sampled import Sampled
from regard.attention.choosers.hard import Hard, MovingBaseline
from regard.attention.scores import PreparedKeys
from regard.core import taps
from regard.core.contracts import Chooser
from regard.core.groups import Groups
from regard.core.output import Output
from regard.core.state import State
from regard.layers.dropout import Dropout
from regard.layers.embedding import TiedOutput, TokenEmbedding
from regard.layers.lstm_cell import LstmCell
from regard.models._captioner import SIZES, Captioner, CaptionerConfig


class ShowAttendTellConfig(CaptionerConfig):
    d_memory: int = Field(512, gt=0, description="width to which the features of a cell are projected")
    d_attention: int = Field(256, gt=0)
    score: str = "additive"
    attention: Literal["soft", "hard"] = "soft"
    gate: Literal["none", "scalar", "vector"] = "scalar"
    coverage: float = Field(1.0, ge=0, description="λ of the doubly stochastic penalty, for soft")
    reward: float = Field(0.1, ge=0, description="λ_r, for hard")
    entropy: float = Field(0.002, ge=0, description="λ_e, for hard")
    expected: float = Field(0.5, ge=0, le=1, description="share of captions with soft attention in training, for hard")
    tie: bool = Field(False, description="L_o is the embedding's matrix")


@dataclass
class _Looks:
    """The results of attention at each step [B,·] that the loss needs."""

    weights: list[Tensor]
    log_prob: list[Tensor]
    entropy: list[Tensor]


_Pair = tuple[Tensor, Tensor]
_KEPT = ("keys", "values", "hidden", "cell")  # the tensors that are stored for each image
_LOOKS = taps.Axes("target", "image")


class ShowAttendTell(Captioner):
    Config = ShowAttendTellConfig
    SIZES = SIZES
    usual_method = "photo"

    def __init__(self, config: ShowAttendTellConfig) -> None:
        super().__init__()
        self._add_encoder(config)
        width, hidden, wide = config.d_embedding, config.d_hidden, config.d_memory
        self.memory = nn.Linear(self.encoder.d_model, wide)
        self.first_hidden, self.first_cell = nn.Linear(wide, hidden), nn.Linear(wide, hidden)
        self.score = make_score(config.score, hidden, wide, d_hidden=config.d_attention)
        alike = not self.score.same_width or hidden == wide
        self.key = nn.Identity() if alike else nn.Linear(wide, hidden, bias=False)
        gates = {"none": 0, "scalar": 1, "vector": wide}[config.gate]
        self.gate = nn.Linear(hidden, gates) if gates else None
        self.embedding = TokenEmbedding(config.vocab_size, width)
        self.decoder = LstmCell(width, wide, hidden)
        self.from_hidden, self.from_context = nn.Linear(hidden, width), nn.Linear(wide, width, bias=False)
        self.output = TiedOutput(self.embedding, bias=True) if config.tie else nn.Linear(width, config.vocab_size)
        self.dropout = Dropout(config.dropout)
        self.hard = Hard() if config.attention == "hard" else None
        self.baseline = MovingBaseline() if self.hard is not None else None
        self.reward = config.reward
        self.site = "look"
        self.coverage_site = self.site

    def forward(
        self,
        target: Int[Tensor, "B T"],
        pixel_values: Tensor | None = None,
        features: Tensor | None = None,
        target_mask: Bool[Tensor, "B T"] | None = None,
    ) -> Output:
        """Logits of the word after each word of `target`. In training also log p of sampled choices, and the penalty of
        each caption, over the words where `target_mask` is True."""
        memory, state = self._begin(self.seen(pixel_values, features))
        words = taps.point("decoder.input", self.dropout(self.embedding(target)), "prefix")
        looks, states, contexts = _Looks([], [], []), [], []
        chooser = self._chooser(len(target), target.device)
        for x in self.decoder.prepare(words).unbind(1):
            state, context = self._advance(x, state, memory, chooser, looks=looks)
            states.append(state[0])
            contexts.append(context)
        hidden = self._written(words, torch.stack(states, 1), torch.stack(contexts, 1))
        hidden = taps.point("decoder.states", hidden, "prefix")
        log_prob = torch.stack(looks.log_prob, 1) if looks.log_prob else None
        penalty = self._penalty(looks, target_mask) if self.training else None
        return Output(hidden, lambda: self.output(hidden), log_prob=log_prob, penalty=penalty)

    def head_logits(self, hidden: Float[Tensor, "B T D"]) -> Float[Tensor, "B T V"]:
        """Logits of the states before the output layer."""
        return self.output(hidden)

    def read(self, inputs: Mapping[str, Tensor], state: State, sources_R: Tensor) -> None:
        memory, first = self._begin(self._first_features(inputs))
        for name, part in zip(_KEPT, (*memory, *first), strict=True):
            state.put_sources(name, sources_R, part)

    def step(
        self, tokens_NT: Int[Tensor, "N T"], counts_N: Tensor, paths_N: Tensor, state: State
    ) -> Float[Tensor, "N V"]:
        rows = state.rows(paths_N, counts_N, tokens_NT.shape[1])
        groups = rows.groups
        memory = rows.of_sources("keys"), rows.of_sources("values")
        numbers_N = groups.places_N // groups.width  # the index of each row's source in the memory
        hidden, cell = (rows.get(name, rows.of_sources(name)[numbers_N]) for name in ("hidden", "cell"))
        words = self.dropout(self.embedding(tokens_NT))
        out = rows.get("out", words.new_zeros(len(words), words.shape[2]))
        for t, x in enumerate(self.decoder.prepare(words).unbind(1)):
            after, context = self._advance(x, (hidden, cell), memory, self.hard or "softmax", groups=groups)
            new = [*after, self._written(words[:, t], after[0], context)]
            if rows.uniform_start is None:  # a row without a token at this step does not change
                real = (t < counts_N)[:, None]
                new = [torch.where(real, *pair) for pair in zip(new, (hidden, cell, out), strict=True)]
            hidden, cell, out = new
        for name, part in (("hidden", hidden), ("cell", cell), ("out", out)):
            rows.put(name, part)
        rows.advance()
        return self.output(out)

    def _begin(self, features: Float[Tensor, "B P D"]) -> tuple[_Pair, _Pair]:
        """Keys and values [B,1,P,·], and the first state: hidden and cell."""
        cells = self.memory(self.dropout(features))
        mean = cells.mean(1)
        keys = self.score.prepare(self.key(cells)).unsqueeze(1)
        return (keys, cells.unsqueeze(1)), (torch.tanh(self.first_hidden(mean)), torch.tanh(self.first_cell(mean)))

    def _advance(
        self,
        x: Float[Tensor, "B G"],
        state: _Pair,
        memory: _Pair,
        chooser: Chooser | str,
        *,
        looks: _Looks | None = None,
        groups: Groups | None = None,
    ) -> tuple[_Pair, Float[Tensor, "B E"]]:
        """One step: from the prepared input y_{t−1} and the state, compute the new state and ẑ_t."""
        query = state[0][:, None, None]
        attended = attend(
            query if groups is None else groups.together(query), *memory, score=PreparedKeys(self.score),
            chooser=chooser, site=self.site, axes=_LOOKS,
        )  # fmt: skip
        context = (attended.context if groups is None else groups.apart(attended.context))[:, 0, 0]
        if self.gate is not None:
            context = torch.sigmoid(self.gate(state[0])) * context
        if looks is not None and self.training:
            looks.weights.append(attended.weights[:, 0, 0])
            if isinstance(chooser, Sampled) and attended.log_prob is not None and chooser.entropy is not None:
                looks.log_prob.append(attended.log_prob[:, 0, 0])
                looks.entropy.append(chooser.entropy[:, 0, 0])
        return self.decoder(x, context, *state), context

    def _written(self, x: Tensor, hidden: Tensor, context: Tensor) -> Tensor:
        """The input of the output layer, for one step or for all steps."""
        return self.dropout(torch.tanh(x + self.from_hidden(self.dropout(hidden)) + self.from_context(context)))

    def _chooser(self, batch: int, device: torch.device) -> Chooser | str:
        if self.hard is None:
            return "softmax"
        if not self.training:
            return self.hard
        return Sampled(torch.rand(batch, device=device) < self.config.expected)

    def _penalty(self, looks: _Looks, mask: Tensor | None) -> Float[Tensor, " B"] | None:
        """The term that the model adds to the loss of each caption."""
        config = self.config
        if self.hard is None and config.coverage:
            weights_BTP = torch.stack(looks.weights, 1)
            real = weights_BTP if mask is None else weights_BTP * mask[..., None]
            penalty: Tensor = config.coverage * (1 - real.sum(1)).square().sum(1)
            return penalty
        if self.hard is not None and config.entropy:
            entropy_BT = torch.stack(looks.entropy, 1)
            return -config.entropy * (entropy_BT if mask is None else entropy_BT * mask).sum(1)
        return None
