"""Recurrent encoder–decoders: without attention, with Bahdanau's attention, or with Luong's.

    none        (Sutskever et al. 2014, Cho et al. 2014)  one fixed context c, the encoder's last states, at every step
    bahdanau    (2015)  c_t by score(s_{t−1}, h_i), then s_t = f(s_{t−1}, [y_{t−1}; c_t])
    luong       (2015)  s_t = f(s_{t−1}, [y_{t−1}; s̃_{t−1}]), then c_t by score(s_t, h_i); s̃ only with `input_feeding`

    s̃_t = tanh(W [c_t; s_t; y_{t−1}])        logits = E_t s̃_t

Score, chooser and window come from the attention core, so each row of Luong's table is one option here. The output
matrix is the target embedding (tied), and Bahdanau's maxout layer is a tanh.

Hard attention is trained as by Xu et al. (2015). A share of the sentences (`expected`) uses soft attention. The others
sample one source position per step and learn by REINFORCE, weighted by `reward`; `entropy` rewards uncertain choices.
Without soft sentences a network that begins with random choices gets no signal for better ones, and learns to do
without attention.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field
from torch import Tensor, nn

from regard.attention import Attended, Gaussian, Mask, around, attend, make_chooser, make_score, window
from regard.attention.choosers._sampled import Sampled
from regard.attention.choosers.hard import MovingBaseline
from regard.attention.predicted_window import PredictedWindow
from regard.attention.scores import PreparedKeys
from regard.core import taps
from regard.core.config import Config
from regard.core.contracts import Chooser
from regard.core.groups import Groups
from regard.core.output import Output
from regard.core.state import State
from regard.layers.dropout import Dropout
from regard.layers.embedding import TiedOutput, TokenEmbedding
from regard.layers.recurrent import Recurrent, RecurrentState
from regard.models._source_memory import PARTS, Memory, choices_of, context_of, times_of


class Seq2seqConfig(Config):
    source_vocab: int = Field(gt=0)
    target_vocab: int = Field(gt=0)
    d_embedding: int = Field(256, gt=0)
    d_hidden: int = Field(512, gt=0)
    cell: Literal["elman", "gru", "lstm"] = "gru"
    n_layers: int = Field(1, gt=0)
    bidirectional: bool = True
    attention: Literal["none", "bahdanau", "luong"] = "bahdanau"
    score: str = "additive"
    chooser: str = "softmax"
    reach: Literal["global", "local_m", "local_p"] = "global"
    radius: int = Field(10, gt=0, description="D of local attention")
    diagonal: bool = Field(False, description="local_p: the window of step t starts at source position t")
    input_feeding: bool = Field(True, description="for luong")
    reward: float = Field(0.03, ge=0, description="weight of REINFORCE's loss, for the chooser hard")
    entropy: float = Field(0.002, ge=0, description="weight of the choices' entropy, for the chooser hard")
    expected: float = Field(0.5, ge=0, le=1, description="share of sentences that attend softly in training, for hard")
    dropout: float = Field(0.2, ge=0, lt=1)
    max_len: int = Field(1024, gt=0, description="the location score has a row for each source position up to here")


SIZES: dict[str, dict[str, int]] = {
    "tiny": {"d_embedding": 128, "d_hidden": 128},
    "small": {"d_embedding": 256, "d_hidden": 256},
    "base": {"d_embedding": 512, "d_hidden": 512},
    "big": {"d_embedding": 620, "d_hidden": 1000},
}


_ALIGNS = taps.Axes("target", "source")


class Seq2seq(nn.Module):
    Config = Seq2seqConfig
    SIZES = SIZES

    @staticmethod
    def longest_of(config: Seq2seqConfig) -> int | None:
        """The longest input of a model with this configuration, in tokens; None: no limit."""
        return config.max_len if config.attention != "none" and config.score == "location" else None

    def __init__(self, config: Seq2seqConfig) -> None:
        super().__init__()
        self.config = config
        width, hidden = config.d_embedding, config.d_hidden
        self.source_embedding = TokenEmbedding(config.source_vocab, width)
        self.target_embedding = TokenEmbedding(config.target_vocab, width)
        self.encoder = Recurrent(
            config.cell,
            width,
            hidden,
            n_layers=config.n_layers,
            bidirectional=config.bidirectional,
            dropout=config.dropout,
        )
        d_memory = self.encoder.d_output
        self.bridge = nn.Linear(d_memory, hidden)
        fed = {"none": d_memory, "bahdanau": d_memory, "luong": width if config.input_feeding else 0}[config.attention]
        self.decoder = Recurrent(config.cell, width + fed, hidden, n_layers=config.n_layers, dropout=config.dropout)
        self.combine = nn.Linear(d_memory + hidden + width, width)
        self.dropout = Dropout(config.dropout)
        self.output = TiedOutput(self.target_embedding, bias=False)
        if config.attention != "none":
            self.score = make_score(config.score, hidden, d_memory, d_hidden=hidden, max_keys=config.max_len)
            if self.score.same_width and hidden != d_memory:
                # Inner products need equal widths, so the keys are projected to the decoder's width.
                self.key: nn.Module = nn.Linear(d_memory, hidden, bias=False)
            else:
                self.key = nn.Identity()
            self.chooser = make_chooser(config.chooser)
            self.centre = PredictedWindow(hidden, config.radius) if config.reach == "local_p" else None
        self.baseline = MovingBaseline() if config.chooser == "hard" and config.attention != "none" else None
        self.reward = config.reward
        self.longest: int | None = self.longest_of(config)
        self.site = "align"
        self.coverage_site: str | None = None if config.attention == "none" else self.site

    def forward(
        self, source: Int[Tensor, "B S"], source_mask: Bool[Tensor, "B S"], target: Int[Tensor, "B T"]
    ) -> Output:
        """States before the output layer, and logits of the next token. With hard attention in training also log p
        [B,T] of each sampled choice, and a penalty [B,T] for choices with low entropy."""
        memory, state = self.encode(source, source_mask)
        chooser = self._training_chooser(len(target), target.device)
        hidden, log_prob, entropy = self._states(target, memory, state, chooser)
        penalty = None if entropy is None else -self.config.entropy * entropy
        return Output(hidden, lambda: self.output(hidden), log_prob=log_prob, penalty=penalty)

    def _training_chooser(self, batch: int, device: torch.device) -> Sampled | None:
        """The chooser of hard attention in training; None: the model's own chooser."""
        if self.baseline is None or not self.training:
            return None
        return Sampled(torch.rand(batch, device=device) < self.config.expected)

    def _states(
        self, target: Tensor, memory: Memory, state: RecurrentState, chooser: Sampled | None
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """States before the output layer [B,T,D]; for sampled choices also log p and the entropy [B,T]."""
        x = taps.point("decoder.input", self.dropout(self.target_embedding(target)), "prefix")
        if self.config.attention == "luong" and not self.config.input_feeding:
            # Only the recurrent state feeds step t+1, so attention and output run over all steps at once.
            states, _ = self.decoder(x, state=state)
            attended = self._look(states, memory, start=0, chooser=chooser)
            out = taps.point("decoder.states", self._combine(attended.context[:, 0], states, x), "prefix")
            return out, *((part[:, 0] for part in choices_of(attended, chooser)) if chooser else (None, None))
        outputs, chosen, fed = [], [], self._nothing_fed(memory)
        for t, x_t in enumerate(x.unbind(1)):
            out, state, attended_t = self._advance(x_t, state, fed, memory, t, chooser=chooser)
            outputs.append(out)
            fed = out
            if attended_t is not None and chooser is not None:
                chosen.append([part[:, 0, 0] for part in choices_of(attended_t, chooser)])
        out = taps.point("decoder.states", torch.stack(outputs, 1), "prefix")
        return out, *((torch.stack(parts, 1) for parts in zip(*chosen, strict=True)) if chosen else (None, None))

    def encode(self, source: Tensor, real: Tensor) -> tuple[Memory, RecurrentState]:
        """The memory, and the decoder's first state, computed from the encoder's last."""
        lengths = real.sum(1)
        x = taps.point("encoder.input", self.dropout(self.source_embedding(source)), "source")
        states, last = self.encoder(x, lengths=lengths)
        states = taps.point("encoder.states", states, "source")
        directions = 2 if self.config.bidirectional else 1
        first = {
            name: torch.tanh(self.bridge(part.unflatten(1, (-1, directions)).flatten(2))) for name, part in last.items()
        }
        if self.config.attention == "none":
            final = last["hidden"].unflatten(1, (-1, directions))[:, -1].flatten(1)
            return Memory(final[:, None, None], final[:, None, None], real, lengths), first
        keys, values = self.score.prepare(self.key(states)).unsqueeze(1), states.unsqueeze(1)
        return Memory(keys, values, real, lengths), first

    def head_logits(self, hidden: Float[Tensor, "B T D"]) -> Float[Tensor, "B T V"]:
        """Logits of target states."""
        return self.output(hidden)

    @property
    def vocab_size(self) -> int:
        """The size of the target vocabulary."""
        return self.config.target_vocab

    def new_state(self, *, sources: int, paths: int, capacity: int) -> State:
        return State(sources=sources, paths=paths, capacity=capacity, device=self.target_embedding.weight.device)

    def read(self, inputs: Mapping[str, Tensor], state: State, sources_R: Tensor) -> None:
        memory, first = self.encode(inputs["source"], inputs["source_mask"])
        for name, dim in PARTS.items():
            alike = self.config.attention == "none" and dim == 2  # one context, whatever the source's length
            state.put_sources(f"memory.{name}", sources_R, getattr(memory, name), dim=None if alike else dim)
        for name, part in first.items():
            state.put_sources(f"first.{name}", sources_R, part)

    def step(
        self, tokens_NT: Int[Tensor, "N T"], counts_N: Tensor, paths_N: Tensor, state: State
    ) -> Float[Tensor, "N V"]:
        rows = state.rows(paths_N, counts_N, tokens_NT.shape[1])
        groups = rows.groups
        memory = Memory(*(rows.of_sources(f"memory.{name}") for name in PARTS))
        numbers_N = groups.places_N // groups.width  # the index of each row's source in the memory
        recurrent = {
            name: rows.get(f"decoder.{name}", rows.of_sources(f"first.{name}")[numbers_N])
            for name in self.decoder.empty_state(1)
        }
        out = rows.get("fed", memory.values.new_zeros(len(numbers_N), self.config.d_embedding))
        for t, x_t in enumerate(self.dropout(self.target_embedding(tokens_NT)).unbind(1)):
            time = rows.starts_N + t if rows.uniform_start is None else rows.uniform_start + t
            new_out, new_recurrent, _ = self._advance(x_t, recurrent, out, memory, time, groups)
            if rows.uniform_start is not None:
                out, recurrent = new_out, new_recurrent
                continue
            real_N = t < counts_N  # a row without a token at this step does not change
            out = torch.where(real_N[:, None], new_out, out)
            recurrent = {name: torch.where(real_N[:, None, None], new_recurrent[name], recurrent[name])
                         for name in recurrent}  # fmt: skip
        for name, part in recurrent.items():
            rows.put(f"decoder.{name}", part)
        rows.put("fed", out)
        rows.advance()
        return self.output(out)

    def _advance(
        self,
        x: Tensor,
        state: RecurrentState,
        fed: Tensor,
        memory: Memory,
        t: int | Tensor,
        groups: Groups | None = None,
        chooser: Chooser | None = None,
    ) -> tuple[Tensor, RecurrentState, Attended | None]:
        """One step: from y_{t−1} and s_{t−1} to s̃_t and s_t. With `groups`, several rows read from one memory."""
        config = self.config
        if config.attention == "none":
            context = memory.values[:, 0, 0]
            context = context if groups is None else context[groups.places_N // groups.width]
            out, state = self.decoder.step(torch.cat([x, context], -1), state)
            return self._combine(context, out, x), state, None
        if config.attention == "bahdanau":
            attended = self._look(state["hidden"][:, -1:], memory, start=t, groups=groups, chooser=chooser)
            context = context_of(attended, groups)
            out, state = self.decoder.step(torch.cat([x, context], -1), state)
        else:
            out, state = self.decoder.step(torch.cat([x, fed], -1) if config.input_feeding else x, state)
            attended = self._look(out.unsqueeze(1), memory, start=t, groups=groups, chooser=chooser)
            context = context_of(attended, groups)
        return self._combine(context, out, x), state, attended

    def _look(
        self,
        query: Float[Tensor, "B Q E"],
        memory: Memory,
        *,
        start: int | Tensor,
        groups: Groups | None = None,
        chooser: Chooser | None = None,
    ) -> Attended:
        config, mask, gain = self.config, Mask(keys=memory.real), None
        n_queries = query.shape[1]
        query = query.unsqueeze(1)
        if groups is not None:
            query = groups.together(query)
        if config.reach == "local_m" and isinstance(start, int) and groups is None:
            mask = mask & window(config.radius, start=start)
        elif config.reach == "local_m":
            mask = mask & around(times_of(start, n_queries, query, groups).to(query.dtype), config.radius)
        if self.centre is not None:
            times = times_of(start, n_queries, query, groups) if config.diagonal else None
            predicted: tuple[Mask, Gaussian] = self.centre(query, memory.lengths, times)
            mask, gain = mask & predicted[0], predicted[1]
        return attend(
            query,
            memory.keys,
            memory.values,
            score=PreparedKeys(self.score),
            mask=mask,
            chooser=chooser or self.chooser,
            gain=gain,
            site=self.site,
            axes=_ALIGNS,
        )

    def _combine(self, context: Tensor, out: Tensor, x: Tensor) -> Tensor:
        return self.dropout(torch.tanh(self.combine(torch.cat([context, out, x], -1))))

    def _nothing_fed(self, memory: Memory) -> Tensor:
        return memory.values.new_zeros(len(memory.real), self.config.d_embedding)
