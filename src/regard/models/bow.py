"""Bag of words (fixed-size features of a text) with a classifier: logistic regression, a two-layer or a deep network.

    x_v                                                              `features`
    tf(v)                                                            counts
    1 if the text holds v                                            binary
    tf(v) · idf(v) / ‖·‖₂,   idf(v) = ln((1+N)/(1+df(v))) + 1        tf_idf; 1 + ln tf in place of tf if `sublinear`
    (positive words, negative words, "no"?, pronouns, "!"?, ln n)    lexicon (Jurafsky & Martin, table 5.2)

    logits = W x + b                                                 `hidden` ()
    h₁ = φ(W₁ x + b₁), …, logits = W h + b                           `hidden` (h₁, …)

The first product is computed word by word: W₁ x = Σ_t x_t W₁[:, word_t], where a word's feature is divided among its
occurrences and x_t is the share of occurrence t. So the vectors of words, W₁[:, word] x_t, are the states at
`encoder.input` as in any encoder, the logits depend on their sum, and attribution by words is exact for the linear
case. `idf` and the lexicon's hits are computed from the training data and the vocabulary before the first update
(`prime`) and are stored with the weights.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor, nn

from regard.core import taps
from regard.core.batch import Batch
from regard.core.config import Config
from regard.core.output import Output
from regard.layers.dropout import Dropout
from regard.layers.embedding import TokenEmbedding
from regard.layers.feedforward import activate, check_activation
from regard.layers.mlp import Mlp
from regard.models._lexicon import NAMES, hits, read_lexicon


class BowConfig(Config):
    vocab_size: int = Field(gt=0)
    features: Literal["counts", "binary", "tf_idf", "lexicon"] = "counts"
    sublinear: bool = Field(False, description="of tf_idf: 1 + ln tf in place of tf")
    lexicon: str = Field("$REGARD_DATA/lexicon", description="the folder of positive.txt and negative.txt")
    hidden: tuple[int, ...] = Field((), max_length=100, description="widths of hidden layers; (): logistic regression")
    activation: str = "relu"
    dropout: float = Field(0.0, ge=0, lt=1, description="of hidden layers")
    word_dropout: float = Field(0.0, ge=0, lt=1, description="of the words of a text in training")
    max_len: int = Field(512, gt=0, description="words of a text that are read")
    head: Literal["classes"] = "classes"
    n_labels: int = Field(2, gt=0)


SIZES: dict[str, dict[str, Any]] = {
    "logistic": {"hidden": ()},
    "two_layers": {"hidden": (100,)},
    "deep": {"hidden": (300, 300, 300), "dropout": 0.2},
}


class Bow(nn.Module):
    Config = BowConfig
    SIZES = SIZES
    reads_cls = False
    needs_words = True
    usual_method = "words"
    whole_sides = ("text",)
    """Layers after the sum hold one state for the whole text."""
    idf: Tensor
    hits: Tensor

    def __init__(self, config: BowConfig) -> None:
        super().__init__()
        check_activation(config.activation)
        self.config = config
        self.longest: int | None = None
        width = config.hidden[0] if config.hidden else config.n_labels
        if config.features == "lexicon":
            self.features = nn.Linear(len(NAMES), width, bias=False)
            self.register_buffer("hits", torch.zeros(config.vocab_size, len(NAMES) - 1))
        else:
            self.embedding = TokenEmbedding(config.vocab_size, width)
        if config.features == "tf_idf":
            self.register_buffer("idf", torch.ones(config.vocab_size))
        self.bias = nn.Parameter(torch.zeros(width))
        self.drop_words, self.dropout = Dropout(config.word_dropout), Dropout(config.dropout)
        self.net = Mlp(width, config.hidden[1:], activation=config.activation, dropout=config.dropout, site="encoder")
        self.output = nn.Linear(self.net.d_output, config.n_labels) if config.hidden else nn.Identity()
        self._initialize()

    @staticmethod
    def task_of(config: BowConfig) -> str:
        return "classification"

    @staticmethod
    def needed_words(options: Mapping[str, Any]) -> list[str]:
        """The words of the lexicon, which the vocabulary must hold."""
        if options.get("features") != "lexicon":
            return []
        folder = options.get("lexicon", BowConfig.model_fields["lexicon"].default)
        return [*sorted(frozenset().union(*read_lexicon(folder))), "no", "!"]

    def prime(self, batches: Iterable[Batch], words: Sequence[str]) -> None:
        if self.config.features == "lexicon":
            self.hits = hits(words, read_lexicon(self.config.lexicon)).to(self.bias.dtype)
        if self.config.features == "tf_idf":
            self.idf = _idf(batches, self.config.vocab_size).to(self.bias.dtype)

    def forward(self, input_ids: Int[Tensor, "B T"], attention_mask: Tensor | None = None, **_: Tensor) -> Output:
        """Logits of the classes [B,C]. `hidden` are the vectors of the words; the logits depend on their sum."""
        real = torch.ones_like(input_ids, dtype=torch.bool) if attention_mask is None else attention_mask.bool()
        kept = self.drop_words(real.to(self.bias.dtype))
        vectors = taps.point("encoder.input", self._vectors(input_ids, real) * kept.unsqueeze(-1))
        state = vectors.sum(1, keepdim=True) + self.bias
        if self.config.hidden:
            state = self.dropout(activate(self.config.activation, state))
        state = self.net(taps.point("encoder.0", state, "text"), first=1, axis="text")
        return Output(vectors, self.output(state).squeeze(1), pooled=state.squeeze(1))

    def feature_values(self, input_ids: Int[Tensor, "B T"], attention_mask: Tensor) -> Float[Tensor, "B F"]:
        """The six lexicon features of each text."""
        return self._lexicon_shares(input_ids, attention_mask.bool()).sum(1)

    def _vectors(self, input_ids: Tensor, real: Tensor) -> Tensor:
        if self.config.features == "lexicon":
            return self.features(self._lexicon_shares(input_ids, real))
        return self.embedding(input_ids) * self._shares(input_ids, real).unsqueeze(-1)

    def _shares(self, input_ids: Tensor, real: Tensor) -> Float[Tensor, "B T"]:
        """The contribution of each occurrence of a word to the word's feature."""
        if self.config.features == "counts":
            return real.to(self.bias.dtype)
        times = _times(input_ids, real).to(self.bias.dtype)
        if self.config.features == "binary":
            return real / times
        shares = self.idf[input_ids] * ((1 + times.log()) / times if self.config.sublinear else 1.0) * real
        return shares / (times * shares.square()).sum(1, keepdim=True).sqrt().clamp_min(1e-12)

    def _lexicon_shares(self, input_ids: Tensor, real: Tensor) -> Float[Tensor, "B T F"]:
        seen = self.hits[input_ids] * real.unsqueeze(-1)
        counts, length = seen.sum(1, keepdim=True), real.sum(1, keepdim=True).clamp_min(1)
        # The features of "no" and "!" are presence, not frequency.
        once = torch.tensor([False, False, True, False, True], device=seen.device)
        seen = torch.where(once, seen / counts.clamp_min(1), seen)
        logs = (length.to(seen.dtype).log() / length * real).unsqueeze(-1)
        return torch.cat([seen, logs], -1)

    def _initialize(self) -> None:
        first = self.features if self.config.features == "lexicon" else self.embedding
        if not self.config.hidden:
            nn.init.zeros_(first.weight)
        elif self.config.features != "lexicon":
            nn.init.normal_(first.weight, std=1.0 if self.config.features == "tf_idf" else 0.1)


def _times(input_ids: Tensor, real: Tensor) -> Tensor:
    """The number of times that the word at each position occurs in its text [B,T]; 1 for padding."""
    size, rows = int(input_ids.max()) + 1, torch.arange(len(input_ids), device=input_ids.device)[:, None]
    _, places, counts = (input_ids + rows * size)[real].unique(return_inverse=True, return_counts=True)
    times = torch.ones_like(input_ids)
    times[real] = counts[places]
    return times


def _idf(batches: Iterable[Batch], vocab_size: int) -> Tensor:
    texts, texts_with = 0, torch.zeros(vocab_size, dtype=torch.float64)
    for batch in batches:
        for ids, real in zip(batch["input_ids"], batch["attention_mask"].bool(), strict=True):
            texts_with[ids[real].unique()] += 1
            texts += 1
    return math.log(1 + texts) - (1 + texts_with).log() + 1
