"""Recurrent networks without an encoder–decoder: language models, classifiers, taggers.

    x_t = E[w_t]        h_t^l = cell(D(h_t^{l−1}), h_{t−1}^l),  h_t^0 = x_t        logits = W D(h_t^L) + b

E is `embedding`, the cells (Elman, GRU, LSTM: equations in `layers/recurrent.py`) are `layers`, one per layer; W, b are
`output`; with `tie` W = E (Press and Wolf 2017), so that `d_hidden` must be `d_embedding`. The head `tokens` predicts
the next word at each step (many-to-many), `classes` the class of the text from the last state (many-to-one; of both
directions, if there are two), `token_classes` a class for each word.

With `characters` the model also reads the characters of a word (Ma and Hovy 2016): x_t = [E[w_t]; C(w_t)], where C is
`spelling`, convolutions over the word's characters (`layers/characters.py`) to `characters` numbers. A word that is not
in the vocabulary has the embedding of `unk` but its own characters. This is for classifiers and taggers only.

Dropout D acts between layers, on the embeddings and on the last states, never from step to step (Zaremba et al. 2014).
With `variational` one mask per sequence is used at all its steps, and for h_{t−1} too (Gal and Ghahramani 2016); the
cells then run step by step, in one direction, which is slower. In a GRU that mask also acts on the part of h_{t−1} that
is kept.

As a language model it reads running text in streams (`data.streams`): a batch begins with the state after the batch
before it, and gradients end there (truncated backpropagation through time).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

import torch
from jaxtyping import Float, Int
from pydantic import Field, model_validator
from torch import Tensor, nn

from regard.core import taps
from regard.core.config import Config
from regard.core.errors import ConfigError, UsageError
from regard.core.output import Output
from regard.core.state import State
from regard.layers.characters import N_CHARACTERS, CharacterWords
from regard.layers.dropout import Dropout
from regard.layers.embedding import TiedOutput, TokenEmbedding
from regard.layers.recurrent import Recurrent, RecurrentState
from regard.models._carried import layer_states, to_the_left
from regard.models._unconditional import Unconditional

_TASKS = {"tokens": "language_model", "classes": "classification", "token_classes": "token_classification"}
_D_CHARACTER, _FILTERS = 16, ((2, 25), (3, 50), (4, 50))
"""The width of character vectors, and the (width, count) of the filters over them."""


class RnnConfig(Config):
    vocab_size: int = Field(gt=0)
    cell: Literal["elman", "gru", "lstm"] = "lstm"
    d_embedding: int = Field(200, gt=0)
    d_hidden: int = Field(200, gt=0)
    n_layers: int = Field(2, gt=0)
    bidirectional: bool = False
    dropout: float = Field(0.0, ge=0, lt=1)
    variational: bool = Field(False, description="one dropout mask for all steps, also from step to step")
    tie: bool = Field(False, description="the output layer is the transposed embedding")
    spread: float = Field(0.0, ge=0, description="all weights start uniform in ± this, as in Zaremba et al.; 0: usual")
    radius: float = Field(0.0, ge=0, description="spectral radius of the recurrent matrices at the start; 0: usual, 1")
    characters: int = Field(0, ge=0, description="width of a vector from the word's characters; 0: none")
    unk: int = Field(1, ge=0, description="with characters: the token whose embedding unknown words get")
    head: Literal["tokens", "classes", "token_classes"] = "tokens"
    n_labels: int = Field(2, gt=0)
    max_len: int = Field(2048, gt=0, description="tokens of a text to classify; a language model has no limit")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.bidirectional and self.head == "tokens":
            raise ValueError("a bidirectional network cannot predict the next word: it has seen it")
        if self.tie and self.head == "tokens" and self.d_hidden != self.d_embedding:
            raise ValueError("with tie, d_hidden must be d_embedding")
        if self.characters and self.head == "tokens":
            raise ValueError("characters are for a classifier or a tagger")
        return self


# Zaremba et al. 2014, with 10,000 words of the Penn Treebank.
SIZES: dict[str, dict[str, Any]] = {
    "small": {"d_embedding": 200, "d_hidden": 200, "n_layers": 2, "spread": 0.1},
    "medium": {"d_embedding": 650, "d_hidden": 650, "n_layers": 2, "spread": 0.05, "dropout": 0.5},
    "large": {"d_embedding": 1500, "d_hidden": 1500, "n_layers": 2, "spread": 0.04, "dropout": 0.65},
}


class Rnn(Unconditional):
    Config = RnnConfig
    SIZES = SIZES
    usual_method = "words"
    coverage_site: str | None = None
    carries: ClassVar[bool] = True
    """The language model can continue from the state of an earlier call."""
    reads_cls: ClassVar[bool] = False
    needs_words: ClassVar[bool] = True

    @staticmethod
    def task_of(config: RnnConfig) -> str:
        return _TASKS[config.head]

    @staticmethod
    def reads_characters_with(config: RnnConfig) -> bool:
        return config.characters > 0

    def __init__(self, config: RnnConfig) -> None:
        super().__init__()
        self.config = config
        self.longest: int | None = None
        self.embedding = TokenEmbedding(config.vocab_size, config.d_embedding)
        self.dropout = Dropout(config.dropout)
        directions = 1 + config.bidirectional
        self.spelling = (
            CharacterWords(N_CHARACTERS, _D_CHARACTER, config.characters, filters=_FILTERS, n_highway=0)
            if config.characters
            else None
        )
        widths = [config.d_embedding + config.characters, *[config.d_hidden * directions] * (config.n_layers - 1)]
        self.layers = nn.ModuleList(
            Recurrent(config.cell, width, config.d_hidden, bidirectional=config.bidirectional) for width in widths
        )
        wide = config.d_hidden * directions
        if config.head != "tokens":
            self.output: nn.Module = nn.Linear(wide, config.n_labels)
        else:
            self.output = TiedOutput(self.embedding) if config.tie else nn.Linear(wide, config.vocab_size)
        self._side = "decoder" if config.head == "tokens" else "encoder"
        if config.spread:
            for parameter in self.parameters():
                nn.init.uniform_(parameter, -config.spread, config.spread)
        if config.radius:
            self._set_radius(config.radius)

    @torch.no_grad()
    def _set_radius(self, radius: float) -> None:
        """Scale orthogonal recurrent matrices, all of whose eigenvalues have modulus 1."""
        for name, parameter in self.layers.named_parameters():
            if "weight_hh" in name:
                for gate in parameter.chunk(len(parameter) // self.config.d_hidden):
                    nn.init.orthogonal_(gate).mul_(radius)

    def forward(
        self,
        input_ids: Int[Tensor, "B T"],
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        *,
        carried: Mapping[str, Tensor] | None = None,
        characters: Int[Tensor, "B T L"] | None = None,
    ) -> Output:
        """Logits of the next word at each step, of the classes [B,C], or of each word's class [B,T,C].

        `carried` is the `state` that an earlier call returned. Padding may be on the left or on the right. `characters`
        are the ids of `data/text/spelling.py`, for a model that reads characters.
        """
        real = None if attention_mask is None else attention_mask.bool()
        ids, back = (input_ids, None) if real is None else to_the_left(input_ids, real)
        if characters is not None and back is not None:
            characters = characters.gather(1, back.argsort(1)[..., None].expand_as(characters))
        lengths = None if real is None else real.sum(1)
        hidden, ends = self._run(ids, lengths, layer_states(carried, len(self.layers)), characters)
        if back is not None:
            hidden = hidden.gather(1, back[..., None].expand_as(hidden))
        state = {f"{n}.{name}": part for n, end in enumerate(ends) for name, part in end.items()}
        if self.config.head == "classes":
            final = self.dropout(ends[-1]["hidden"].flatten(1))
            return Output(hidden, self.output(final), state=state)
        return Output(hidden, lambda: self.output(hidden), state=state)

    def _run(
        self,
        ids: Tensor,
        lengths: Tensor | None,
        starts: list[RecurrentState | None],
        characters: Tensor | None = None,
    ) -> tuple[Tensor, list[RecurrentState]]:
        """The last layer's states after dropout, and the state of each layer after each row's last word."""
        x, ends = taps.point(f"{self._side}.input", self._vectors(ids, characters)), []
        for number, (layer, start) in enumerate(zip(self.layers, starts, strict=True)):
            assert isinstance(layer, Recurrent)
            x = self._drop(x)
            x, end = (
                self._step_by_step(layer, x, lengths, start)
                if self._masks_steps
                else layer(x, lengths=lengths, state=start)
            )
            x = taps.point(f"{self._side}.{number}", x)
            ends.append(end)
        return self._drop(x), ends

    def _vectors(self, ids: Tensor, characters: Tensor | None) -> Float[Tensor, "B T D"]:
        if self.spelling is None:
            return self.embedding(ids)
        if characters is None:
            raise UsageError("this model reads the characters of words", expected="characters [B,T,50]")
        known = ids.masked_fill(ids >= self.config.vocab_size, self.config.unk)
        return torch.cat([self.embedding(known), self.spelling(characters)], -1)

    @property
    def _masks_steps(self) -> bool:
        config = self.config
        masks = self.training and config.variational and config.dropout > 0
        if masks and config.bidirectional:
            raise ConfigError(
                "variational dropout is for one direction",
                got="variational and bidirectional",
                remedy="Set one of them to false in model.options.",
            )
        return masks

    def _drop(self, x: Tensor) -> Tensor:
        if not (self.training and self.config.variational):
            return self.dropout(x)
        return x * self.dropout(x.new_ones(len(x), 1, x.shape[-1]))

    def _step_by_step(
        self, layer: Recurrent, x: Tensor, lengths: Tensor | None, start: RecurrentState | None
    ) -> tuple[Tensor, RecurrentState]:
        """Run the layer with one dropout mask of h_{t−1} for all steps; a row that has ended keeps its state."""
        state = layer.empty_state(len(x)) if start is None else start
        mask, outputs = self.dropout(x.new_ones(len(x), 1, layer.d_hidden)), []
        for t, x_t in enumerate(x.unbind(1)):
            out, after = layer.step(x_t, {**state, "hidden": state["hidden"] * mask})
            if lengths is not None:
                going = (t < lengths).to(x.device)
                out = out * going[:, None]
                after = {name: torch.where(going[:, None, None], part, state[name]) for name, part in after.items()}
            outputs.append(out)
            state = after
        return torch.stack(outputs, 1), state

    def head_logits(self, hidden: Float[Tensor, "B T D"]) -> Tensor | None:
        """The logits as if this layer were the last; None if its width does not fit."""
        wide = self.config.d_hidden * (1 + self.config.bidirectional)
        return self.output(hidden) if hidden.shape[-1] == wide else None

    def step(
        self, tokens_NT: Int[Tensor, "N T"], counts_N: Tensor, paths_N: Tensor, state: State
    ) -> Float[Tensor, "N V"]:
        rows = state.rows(paths_N, counts_N, tokens_NT.shape[1])
        starts: list[RecurrentState | None] = []
        for number, layer in enumerate(self.layers):
            assert isinstance(layer, Recurrent)
            empty = layer.empty_state(len(tokens_NT))
            starts.append({name: rows.get(f"{number}.{name}", first) for name, first in empty.items()})
        lengths = counts_N if rows.uniform_start is None else None
        hidden, ends = self._run(tokens_NT, lengths, starts)
        for number, end in enumerate(ends):
            for name, part in end.items():
                rows.put(f"{number}.{name}", part)
        rows.advance()
        logits: Tensor = self.output(rows.last(hidden))
        return logits
