"""ELMo (Peters et al. 2018): two language models that read words as characters, and a mix of their layers.

    x_t  = the word's characters by convolutions (`layers/characters.py`)
    →h^l_t = LSTM(→h^{l−1}_t, →h^l_{t−1}) + →h^{l−1}_t     ←h^l_t likewise from the right; no sum in the first layer
    p(w_{t+1} | w_1 … w_t) = softmax(W →h^L_t + b)         p(w_{t−1} | w_t … w_T) = softmax(W ←h^L_t + b)
    ELMo_t = γ Σ_j s_j h_j,t        h_0 = [x; x], h_l = [→h^l; ←h^l], s = softmax(`mix`), γ is `scale`

The LSTMs have `d_hidden` cells and project h to `d_projection` numbers (Sak et al. 2014). Both directions share the
characters' vectors, W and b (`output`). With the head `tokens` it is the pair of language models. With `classes` or
`token_classes` a bidirectional LSTM of `d_task` units reads ELMo_t for a classifier or a tagger; with `frozen` only
this LSTM, the classifier, s and γ are trained. With `d_embedding` it reads [ELMo_t; E w_t], as published: E is
`embedding`, with one row for all words outside the vocabulary. `features: false` leaves ELMo_t out, which is the same
classifier without ELMo.

Where we differ: cells are not clipped to ±3; states begin at zero in each window of text (the published models carry
them from batch to batch); a text gets no special tokens at its ends; and the softmax is full, not sampled. Words that
the training vocabulary lacks are all spelled <unk> in pretraining; afterwards every word is read by its own characters.

`original` has the published options. Its 93.6 M parameters are characters, convolutions, highway layers, projection and
both LSTMs, without the softmax over 793,471 words.
"""

from __future__ import annotations

import warnings
from typing import Any, ClassVar, Literal, Self

import torch
from jaxtyping import Float, Int
from pydantic import Field, model_validator
from torch import Tensor, nn

from regard.core import taps
from regard.core.config import Config
from regard.core.devices import full_precision
from regard.core.output import Output
from regard.layers.characters import LONGEST, N_CHARACTERS, CharacterWords
from regard.layers.dropout import Dropout
from regard.layers.embedding import TokenEmbedding
from regard.layers.recurrent import Recurrent

_TASKS = {"tokens": "bidirectional_lm", "classes": "classification", "token_classes": "token_classification"}
_PUBLISHED = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))


class ElmoConfig(Config):
    vocab_size: int = Field(gt=0, description="words that the language models predict")
    d_character: int = Field(16, gt=0)
    filters: tuple[tuple[int, int], ...] = Field(_PUBLISHED, min_length=1, description="(width, count) of each")
    n_highway: int = Field(2, ge=0)
    d_projection: int = Field(512, gt=0)
    d_hidden: int = Field(4096, gt=0)
    n_layers: int = Field(2, gt=0)
    dropout: float = Field(0.1, ge=0, lt=1)
    head: Literal["tokens", "classes", "token_classes"] = "tokens"
    n_labels: int = Field(2, gt=0)
    d_task: int = Field(150, gt=0, description="units per direction of the LSTM that reads the mix")
    task_dropout: float = Field(0.4, ge=0, lt=1)
    d_embedding: int = Field(0, ge=0, description="width of the task's own word vectors beside ELMo's; 0: none")
    features: bool = Field(True, description="false: the task's own word vectors alone, to compare with")
    frozen: bool = Field(False, description="the language models are not trained; for a classifier or a tagger")
    max_len: int = Field(2048, gt=0)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.d_projection > self.d_hidden:
            raise ValueError("d_projection must be at most d_hidden")
        if self.frozen and self.head == "tokens":
            raise ValueError("frozen is for a classifier or a tagger: nothing would learn")
        if self.d_embedding and self.head == "tokens":
            raise ValueError("d_embedding is for a classifier or a tagger")
        if not self.features and not self.d_embedding:
            raise ValueError("features: false needs d_embedding, or nothing would be read")
        if any(width < 1 or count < 1 or width > LONGEST for width, count in self.filters):
            raise ValueError(f"filters need widths from 1 to {LONGEST} and positive counts")
        return self


SIZES: dict[str, dict[str, Any]] = {
    "small": {"filters": ((1, 32), (2, 32), (3, 64), (4, 64), (5, 64), (6, 64), (7, 64)), "n_highway": 1,
              "d_projection": 128, "d_hidden": 512},
    "original": {"filters": _PUBLISHED, "n_highway": 2, "d_projection": 512, "d_hidden": 4096, "n_layers": 2},
}  # fmt: skip


class ProjectedLstm(nn.Module):
    """One layer of one direction. It has a single bias, as published: the last column of its input matrix."""

    def __init__(self, d_input: int, d_hidden: int, d_projection: int) -> None:
        super().__init__()
        self.cells = nn.LSTM(d_input + 1, d_hidden, bias=False, proj_size=d_projection % d_hidden, batch_first=True)
        weight = self.cells.weight_ih_l0
        assert isinstance(weight, Tensor)
        with torch.no_grad():
            weight[:, -1] = 0.0
            weight[d_hidden : 2 * d_hidden, -1] = 1.0  # the forget gate

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T P"]:
        with full_precision(x), warnings.catch_warnings():
            # Torch warns once per process that it uses its own loops, which is what we want.
            warnings.filterwarnings("ignore", message="LSTM with projections is not supported with oneDNN")
            x = x.float()
            y: Tensor = self.cells(torch.cat([x, x.new_ones(*x.shape[:2], 1)], -1))[0]
        return y


class Elmo(nn.Module):
    Config = ElmoConfig
    SIZES = SIZES
    coverage_site: str | None = None
    reads_cls: ClassVar[bool] = False
    needs_words: ClassVar[bool] = True
    reads_characters: ClassVar[bool] = True

    @staticmethod
    def task_of(config: ElmoConfig) -> str:
        return _TASKS[config.head]

    def __init__(self, config: ElmoConfig) -> None:
        super().__init__()
        self.config = config
        self.longest: int | None = None
        self.usual_method = "gradients" if config.head == "tokens" else "words"
        self.words = CharacterWords(
            N_CHARACTERS,
            config.d_character,
            config.d_projection,
            filters=config.filters,
            n_highway=config.n_highway,
        )
        self.forwards, self.backwards = (
            nn.ModuleList(
                ProjectedLstm(config.d_projection, config.d_hidden, config.d_projection) for _ in range(config.n_layers)
            )
            for _ in range(2)
        )
        self.dropout = Dropout(config.dropout)
        if config.head == "tokens":
            self.output = nn.Linear(config.d_projection, config.vocab_size)
            return
        self.embedding = TokenEmbedding(config.vocab_size + 1, config.d_embedding) if config.d_embedding else None
        wide = 2 * config.d_projection * config.features + config.d_embedding
        self.mix, self.scale = nn.Parameter(torch.zeros(config.n_layers + 1)), nn.Parameter(torch.ones(()))
        self.task_dropout = Dropout(config.task_dropout)
        self.task = Recurrent("lstm", wide, config.d_task, bidirectional=True)
        self.classes = nn.Linear(2 * config.d_task, config.n_labels)
        if config.frozen:
            for part in (self.words, self.forwards, self.backwards):
                part.requires_grad_(False)

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        *,
        characters: Int[Tensor, "B T L"],
    ) -> Output:
        """With `tokens`: logits [B,T,2,V] of the next word (forward model) and of the previous word (backward model).
        Otherwise logits of the classes [B,C], or of each word's class [B,T,C]. Padding is on the right; `input_ids` are
        used for the task's own word vectors only."""
        lengths = None if attention_mask is None else attention_mask.sum(1)
        if self.config.head == "tokens":
            hidden = self.dropout(self.layers(characters, lengths)[-1])
            return Output(hidden, lambda: self.output(hidden.unflatten(-1, (2, -1))))
        mixed = taps.point("encoder.mix", self._mixed(characters, input_ids, lengths))
        hidden, end = self.task(self.task_dropout(mixed), lengths=lengths)
        hidden = taps.point("encoder.task", hidden)
        if self.config.head == "classes":
            return Output(hidden, self.classes(self.task_dropout(end["hidden"].flatten(1))))
        return Output(hidden, self.classes(self.task_dropout(hidden)))

    def layer_shares(self) -> list[tuple[str, float]]:
        """The share of each layer in the mix, the softmax of `mix`; empty for the pair of language models."""
        if self.config.head == "tokens" or not self.config.features:
            return []
        names = ["characters", *(f"layer {number + 1}" for number in range(self.config.n_layers))]
        return list(zip(names, self.mix.detach().softmax(0).tolist(), strict=True))

    def layers(self, characters: Tensor, lengths: Tensor | None = None) -> list[Tensor]:
        """h_0 … h_L [B,T,2P]. Frozen language models run without dropout."""
        return self._layers(taps.point("encoder.input", self.words(characters)), lengths)

    def _mixed(self, characters: Tensor, input_ids: Tensor | None, lengths: Tensor | None) -> Float[Tensor, "B T E"]:
        """What the task's LSTM reads: ELMo, the task's own word vectors, or both."""
        learns = torch.is_grad_enabled() and (not self.config.frozen or taps.watched())
        with torch.set_grad_enabled(learns):
            x = self.words(characters)
        if self.embedding is not None:
            assert input_ids is not None
            x = torch.cat([x, self.embedding(input_ids.clamp(max=self.config.vocab_size))], -1)
        # Both are one input, so that what is attributed to a word has all of its ways.
        x, own = taps.point("encoder.input", x).tensor_split([self.config.d_projection], -1)
        if not self.config.features:
            return own
        with torch.set_grad_enabled(learns):
            layers = torch.stack(self._layers(x, lengths))
        mixed = self.scale * torch.einsum("j,jbtd->btd", self.mix.softmax(0), layers)
        return mixed if self.embedding is None else torch.cat([mixed, own], -1)

    def _layers(self, x: Float[Tensor, "B T P"], lengths: Tensor | None) -> list[Tensor]:
        dropped = self.dropout if not self.config.frozen else nn.Identity()
        order = _reversing(lengths, x)
        sides = [dropped(x), dropped(_taken(x, order))]
        layers = [torch.cat([x, x], -1)]
        for number, stack in enumerate(zip(self.forwards, self.backwards, strict=True)):
            outs = [layer(side) for layer, side in zip(stack, sides, strict=True)]
            sides = [out + side for out, side in zip(outs, sides, strict=True)] if number else outs
            both = torch.cat([sides[0], _taken(sides[1], order)], -1)
            layers.append(taps.point(f"encoder.{number}", both))
            sides = [dropped(side) for side in sides]
        return layers


def _reversing(lengths: Tensor | None, x: Tensor) -> Tensor:
    """The position of each token of a row when its words are reversed [B,T]; padding stays after them."""
    places = torch.arange(x.shape[1], device=x.device).expand(x.shape[:2])
    ends = places.new_full((len(x), 1), x.shape[1]) if lengths is None else lengths[:, None].to(x.device)
    return torch.where(places < ends, ends - 1 - places, places)


def _taken(x: Tensor, order: Tensor) -> Tensor:
    return x.gather(1, order[..., None].expand_as(x))
