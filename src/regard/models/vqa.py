"""Visual question answering with stacked attention (Yang et al. 2016): a question attends to the cells of an image.

    v_i = tanh(W_I f_i + b_I)                                      f_i: the encoder's features of cell i
    u₀ = the question's vector, by an LSTM or a Transformer        (`_question_encoder.py`)
    p_k = softmax(score(u_{k−1}, v)),  ṽ_k = Σ_i p_ki v_i          k = 1 … `hops`: one attention step after the other
    u_k = ṽ_k + u_{k−1}
    p(answer) = softmax(W₂ relu(W₁ u_K))

W_I is `cells`, and `scores` holds the score of each hop (additive: w tanh(W_A v_i + W_Q u), as published). Every hop is
a call of `attend` at the site "look". `differential` adds exemplars (`_exemplars.py`), to which the model attends with
the same weights, at the sites "supporting" and "opposing": "dan" only in training (and under a `watch`), "dcn" always.

Where we differ: there is a hidden layer before the answers (`d_answer`; 0 is none, as published), since yes and no
depend on question and image together; the image encoder is any encoder of this folder, by default trained with the
rest.

An image may have several questions, [B,N,T]: its cells are computed once for all of them.
"""

from __future__ import annotations

from typing import Any, Self, cast

import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field
from torch import Tensor, nn

from regard.attention import attend, make_score
from regard.attention.scores import PreparedKeys
from regard.core import taps
from regard.core.config import Config
from regard.core.errors import ConfigError
from regard.core.output import Output
from regard.layers.dropout import Dropout
from regard.models._exemplars import (
    Between,
    Differential,
    DifferentialContext,
    Exemplars,
    Looked,
    joint,
    nearest_and_farthest,
    triplet,
)
from regard.models._inner_encoder import inner_encoder
from regard.models._question_encoder import Kind, LstmQuestion, TransformerQuestion


class VqaConfig(Config):
    vocab_size: int = Field(gt=0)
    n_labels: int = Field(gt=1, description="the number of different answers")
    encoder: str = Field("resnet", description="an image encoder of regard/models")
    encoder_options: dict[str, Any] = Field(default_factory=dict, description="its configuration")
    frozen: bool = Field(False, description="the encoder is not trained")
    question: Kind = "lstm"
    d_embedding: int = Field(64, gt=0, description="of words, for lstm")
    d_model: int = Field(128, gt=0)
    n_layers: int = Field(1, gt=0, description="of the question's encoder")
    n_heads: int = Field(4, gt=0, description="for transformer")
    hops: int = Field(2, gt=0, le=8)
    score: str = "additive"
    d_attention: int = Field(64, gt=0)
    d_answer: int = Field(128, ge=0, description="the hidden layer before the answers; 0: none")
    dropout: float = Field(0.1, ge=0, lt=1)
    differential: Differential = "none"
    between: Between = Field("maps", description="what dan's triplet loss compares")
    triplet: float = Field(1.0, ge=0, description="ν, for dan")
    margin: float = Field(0.2, ge=0, description="α, for dan")
    exemplars: int = Field(64, gt=1, le=10_000, description="training images that are set aside as exemplars")
    exemplar_questions: int = Field(8, gt=0, le=1000, description="of each")
    exemplar_words: int = Field(16, gt=0, le=1000, description="of each question; the rest is cut")


SIZES: dict[str, dict[str, Any]] = {
    "tiny": {"d_embedding": 32, "d_model": 64, "d_attention": 32, "d_answer": 64},
    "small": {},
    "base": {"d_embedding": 256, "d_model": 512, "d_attention": 256, "d_answer": 512},
}
_SIDES = ("supporting", "opposing")
_Pair = tuple[Looked, Looked]


class Vqa(nn.Module):
    Config = VqaConfig
    SIZES = SIZES
    reads_cls = False
    usual_method = "photo"
    longest: int | None = None

    @staticmethod
    def task_of(config: VqaConfig) -> str:
        """The task of a loaded model."""
        return "visual_question_answering"

    def __init__(self, config: VqaConfig) -> None:
        super().__init__()
        self.config, width, dropout = config, config.d_model, config.dropout
        self.encoder = inner_encoder(config.encoder, config.encoder_options).requires_grad_(not config.frozen)
        self.encoder.channels_last = True
        self.cells = nn.Linear(self.encoder.d_model, width)
        if config.question == "transformer":
            if width % config.n_heads:
                raise ConfigError("the heads do not divide d_model evenly", got=f"{width} and {config.n_heads} heads")
            self.question: nn.Module = TransformerQuestion(
                config.vocab_size, width, n_layers=config.n_layers, n_heads=config.n_heads, dropout=dropout
            )
        else:
            self.question = LstmQuestion(
                config.vocab_size, config.d_embedding, width, n_layers=config.n_layers, dropout=dropout
            )
        made = [make_score(config.score, width, width, d_hidden=config.d_attention) for _ in range(config.hops)]
        self.scores: Any = nn.ModuleList(cast(nn.Module, score) for score in made)
        hidden = config.d_answer
        self.hidden = nn.Linear(width, hidden) if hidden else None
        self.classifier = nn.Linear(hidden or width, config.n_labels)
        self.dropout = Dropout(dropout)
        inner, apart = self.encoder.config, config.differential != "none"
        shape = inner.channels, inner.image_size, inner.image_size
        sizes = config.exemplars, config.exemplar_questions, config.exemplar_words
        self.bank = Exemplars(*sizes, shape) if apart else None
        self.differential = DifferentialContext(width) if config.differential == "dcn" else None
        taps.name_sites(self)

    def train(self, mode: bool = True) -> Self:
        super().train(mode)
        if self.config.frozen:
            self.encoder.eval()
        return self

    @property
    def embedding(self) -> nn.Module:
        """The vectors of words."""
        embedding: nn.Module = self.question.embedding  # type: ignore[assignment]
        return embedding

    def forward(
        self,
        pixel_values: Float[Tensor, "B C height width"],
        input_ids: Int[Tensor, "B *N T"],
        attention_mask: Bool[Tensor, "B *N T"] | None = None,
    ) -> Output:
        """Logits of the answers [B,C], or [B,N,C] with N questions per image; `hidden` are the states u₁ … u_K."""
        mask = torch.ones_like(input_ids, dtype=torch.bool) if attention_mask is None else attention_mask.bool()
        several = input_ids.dim() == 3
        ids_BNT, mask_BNT = (input_ids, mask) if several else (input_ids.unsqueeze(1), mask.unsqueeze(1))
        cells = self._cells(self.encoder.grid(pixel_values))
        asked = self._asked(ids_BNT, mask_BNT)
        wanted = self.bank is not None and (self.training or self.differential is not None or taps.watched())
        beside = self._beside(asked, cells) if wanted else None
        looked = self._look(asked, cells, "look", "image")
        states = looked.states
        if self.differential is not None and beside is not None:
            more = self.differential(looked.context, beside[0].context, beside[1].context)
            states = torch.cat([states[:, :, :-1], (states[:, :, -1] + more).unsqueeze(2)], 2)
        hidden = taps.point("question.hops", states.flatten(0, 1), "hop").unflatten(0, asked.shape[:2])
        penalty = self._penalty(looked, beside, mask_BNT.any(2)) if self.training and beside is not None else None
        logits = self._answers(hidden[:, :, -1])
        return Output(hidden if several else hidden[:, 0], logits if several else logits[:, 0], penalty=penalty)

    @torch.no_grad()
    def exemplars_of(
        self, pixel_values: Tensor, input_ids: Int[Tensor, "B T"], attention_mask: Tensor | None = None
    ) -> dict[str, Int[Tensor, " B"]]:
        """The numbers of the supporting and the opposing exemplar of each question: image · X + question."""
        if self.bank is None:
            return {}
        mask = torch.ones_like(input_ids, dtype=torch.bool) if attention_mask is None else attention_mask.bool()
        with taps.unseen():
            cells = self._cells(self.encoder.grid(pixel_values))
            asked = self._asked(input_ids.unsqueeze(1), mask.unsqueeze(1))
            _, _, *chosen = self._chosen(asked, cells)
        return dict(zip(_SIDES, chosen, strict=True))

    def _cells(self, features: Float[Tensor, "B P E"]) -> Float[Tensor, "B P D"]:
        return torch.tanh(self.cells(self.dropout(features)))

    def _asked(self, ids: Int[Tensor, "B N T"], mask: Bool[Tensor, "B N T"]) -> Float[Tensor, "B N D"]:
        """The vector of each question. In training, each distinct question of a batch is read once."""
        rows, real, place = ids.flatten(0, 1), mask.flatten(0, 1), None
        if self.training:
            rows, place = torch.unique(rows.masked_fill(~real, -1), dim=0, return_inverse=True)
            rows, real = rows.clamp_min(0), rows >= 0
        asked: Tensor = self.question(rows, real)
        return (asked if place is None else asked[place]).unflatten(0, ids.shape[:2])

    def _look(self, asked: Float[Tensor, "B N D"], cells: Float[Tensor, "B P D"], site: str, keys: str) -> Looked:
        """Run all hops of attention; the queries are the image's questions."""
        state, states = asked, []
        for score in self.scores:
            attended = attend(
                state.unsqueeze(1),
                score.prepare(cells).unsqueeze(1),
                cells.unsqueeze(1),
                score=PreparedKeys(score),
                site=site,
                axes=taps.Axes("hop", keys),
            )
            context = attended.context[:, 0]
            state = state + context
            states.append(state)
        return Looked(torch.stack(states, 2), attended.weights[:, 0], context)

    def _answers(self, state: Float[Tensor, "B N D"]) -> Float[Tensor, "B N C"]:
        if self.hidden is not None:
            state = torch.relu(self.hidden(self.dropout(state)))
        logits: Tensor = self.classifier(self.dropout(state))
        return logits

    def _chosen(self, asked: Tensor, cells: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The cells of the exemplars' images [M,P,D], the vectors of their questions [M·X,D], and the numbers of the
        supporting and the opposing exemplar of each question [B·N]."""
        bank = self.bank
        assert bank is not None
        with taps.unseen():
            seen = self._cells(self.encoder.grid(bank.pixel_values))
            questions = self._asked(bank.input_ids, bank.attention_mask)
        mean, other = (part.mean(1).unsqueeze(1) for part in (cells, seen))
        keys = joint(asked, mean.expand_as(asked)).flatten(0, 1)
        known = joint(questions, other.expand_as(questions)).flatten(0, 1)
        return seen, questions.flatten(0, 1), *nearest_and_farthest(keys, known, bank.usable)

    def _beside(self, asked: Float[Tensor, "B N D"], cells: Float[Tensor, "B P D"]) -> _Pair:
        """The results of attention to the supporting and to the opposing exemplar of each question [B,N,…]."""
        seen, questions, *numbers = self._chosen(asked, cells)
        each, (batch, rows) = questions.shape[0] // seen.shape[0], asked.shape[:2]
        pair = []
        for side, chosen in zip(_SIDES, numbers, strict=True):
            if not self.training:
                looked = self._look(questions[chosen].unsqueeze(1), seen[chosen // each], side, side)
                parts = looked.states[:, 0], looked.map[:, 0], looked.context[:, 0]
            else:  # many questions have the same exemplar: attention to each exemplar is computed once
                used, place = torch.unique(chosen, return_inverse=True)
                with taps.unseen():
                    looked = self._look(questions[used].unsqueeze(1), seen[used // each], side, side)
                parts = looked.states[place, 0], looked.map[place, 0], looked.context[place, 0]
            pair.append(Looked(*(part.unflatten(0, (batch, rows)) for part in parts)))
        return pair[0], pair[1]

    def _penalty(self, own: Looked, beside: _Pair, real: Bool[Tensor, "B N"]) -> Float[Tensor, " B"] | None:
        """DAN's triplet loss of each image, summed over its questions."""
        config = self.config
        if config.differential != "dan" or not config.triplet:
            return None
        t, near, far = (each.map if config.between == "maps" else each.context for each in (own, *beside))
        losses: Tensor = config.triplet * (triplet(t, near, far, config.margin) * real).sum(1)
        return losses
