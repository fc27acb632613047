"""Hierarchical attention network for documents (Yang et al. 2016): words make sentences, sentences make a document.

    h_it = [GRU→(x_it); GRU←(x_it)]    u_it = tanh(W_w h_it + b_w)    α_it = softmax_t(u_itᵀ u_w)    s_i = Σ_t α_it h_it
    h_i  = [GRU→(s_i);  GRU←(s_i)]     u_i  = tanh(W_s h_i + b_s)     α_i  = softmax_i(u_iᵀ u_s)     v = Σ_i α_i h_i
    logits = W_c v + b_c

E is `embedding`, x_it = E[word t of sentence i]. The first line is `word_encoder` and `word_attention`, whose learned
query is u_w; the second is `sentence_encoder` and `sentence_attention`; W_c and b_c are `classifier`. `pooling: mean`
is for comparison, the paper's HN-AVE: the same network with α = 1/length on both levels.

Sentences are the segments of a row (`token_type_ids`), as `data.text.sentences` splits a document; a row without
segments is one sentence. Where we differ: a sentence of more than `max_words` words is read in parts of that length, so
that one long sentence does not pad all others; dropout acts on the vectors of words, of sentences and of the document;
word embeddings may start from any embeddings that the recipe names, not only from word2vec.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor, nn

from regard.attention import Mask
from regard.attention.learned_query import LearnedQuery
from regard.core import taps
from regard.core.config import Config
from regard.core.output import Output
from regard.core.pooling import pool
from regard.layers.dropout import Dropout
from regard.layers.embedding import TokenEmbedding
from regard.layers.recurrent import Recurrent
from regard.models._sentences import Sentences

_LABEL = 24  # characters of a sentence's label


class HanConfig(Config):
    vocab_size: int = Field(gt=0)
    cell: Literal["elman", "gru", "lstm"] = "gru"
    d_embedding: int = Field(200, gt=0)
    d_hidden: int = Field(50, gt=0, description="of each direction")
    pooling: Literal["attention", "mean"] = Field("attention", description="mean: the same network without attention")
    max_words: int = Field(100, gt=0, description="a longer sentence is read in parts of this many words")
    dropout: float = Field(0.0, ge=0, lt=1)
    max_len: int = Field(4096, gt=0, description="tokens of a document that are read")
    head: Literal["classes"] = "classes"
    n_labels: int = Field(2, gt=0)


SIZES: dict[str, dict[str, Any]] = {
    "paper": {"d_embedding": 200, "d_hidden": 50},
    "small": {"d_embedding": 50, "d_hidden": 32},
}


class Han(nn.Module):
    Config = HanConfig
    SIZES = SIZES
    reads_cls = False
    reads_sentences = True
    needs_words = True

    @staticmethod
    def task_of(config: HanConfig) -> str:
        return "classification"

    def __init__(self, config: HanConfig) -> None:
        super().__init__()
        self.config = config
        self.longest: int | None = None
        self.embedding = TokenEmbedding(config.vocab_size, config.d_embedding)
        wide, attends = 2 * config.d_hidden, config.pooling == "attention"
        self.dropout = Dropout(config.dropout)
        self.word_encoder = Recurrent(config.cell, config.d_embedding, config.d_hidden, bidirectional=True)
        self.word_attention = LearnedQuery(wide) if attends else None
        self.sentence_encoder = Recurrent(config.cell, wide, config.d_hidden, bidirectional=True)
        self.sentence_attention = LearnedQuery(wide) if attends else None
        self.classifier = nn.Linear(wide, config.n_labels)
        if self.word_attention is not None and self.sentence_attention is not None:
            self.word_attention.axes = taps.Axes("sentence vector", "word")
            self.sentence_attention.axes = taps.Axes("document vector", "sentence")
        taps.name_sites(self)

    @property
    def usual_method(self) -> str:
        return "document" if self.config.pooling == "attention" else "words"

    def forward(
        self,
        input_ids: Int[Tensor, "B T"],
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
    ) -> Output:
        """Logits of the classes [B,C]. Real tokens are True or 1 in the mask; the segments are sentences."""
        split = self._split(input_ids, attention_mask, token_type_ids)
        x = self.dropout(taps.point("encoder.input", self.embedding(input_ids)))
        states, _ = self.word_encoder(split.by_sentence(x), lengths=split.real_NW.sum(1))
        hidden = taps.point("encoder.0", split.by_token(states, input_ids))
        words = split.by_sentence(hidden)
        vectors = self._summary(self.word_attention, words, split.real_NW, split.rows_N)
        documents = self.dropout(split.by_document(vectors))
        states, _ = self.sentence_encoder(documents, lengths=split.real_BS.sum(1))
        states = taps.point("encoder.1", states, "sentence")
        pooled = self._summary(self.sentence_attention, states, split.real_BS)
        return Output(hidden, self.classifier(self.dropout(pooled)), pooled)

    def _split(self, ids: Tensor, mask: Tensor | None, segments: Tensor | None) -> Sentences:
        real = torch.ones_like(ids, dtype=torch.bool) if mask is None else mask.bool()
        return Sentences.split(real, torch.zeros_like(ids) if segments is None else segments, self.config.max_words)

    def _summary(
        self, attention: LearnedQuery | None, states: Tensor, real: Tensor, rows: Tensor | None = None
    ) -> Tensor:
        """One vector for each sentence from its words, or for each document from its sentences."""
        if attention is None:
            return pool(states, real, "mean")
        return attention(states, mask=Mask(keys=real), rows=rows).context[:, 0, 0]

    def head_logits(self, hidden: Float[Tensor, "B T D"]) -> Tensor | None:
        """The logits as if these were the states of the sentences; None if their width does not fit."""
        if hidden.shape[-1] != self.classifier.in_features:
            return None
        real = torch.ones(hidden.shape[:2], dtype=torch.bool, device=hidden.device)
        logits: Tensor = self.classifier(self._summary(self.sentence_attention, hidden, real))
        return logits

    def sides(
        self,
        labels: Sequence[Sequence[str]],
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
    ) -> dict[str, list[list[str]]]:
        """The labels of the model's axes, for rows whose real tokens have these labels."""
        split = self._split(input_ids, attention_mask, token_type_ids)
        flat, begin = [label for row in labels for label in row], 0
        words: list[list[str]] = []
        for length in split.real_NW.sum(1).tolist():
            words.append(flat[begin : begin + length])
            begin += length
        owners = split.rows_N.tolist()
        own = [[w for w, owner in zip(words, owners, strict=True) if owner == row] for row in range(len(labels))]
        return {
            "sentence": [[_label(number, some) for number, some in enumerate(document, 1)] for document in own],
            "word": words,
            "sentence vector": [[f"sentence {number}"] for document in own for number in range(1, len(document) + 1)],
            "document vector": [["document"] for _ in labels],
        }


def _label(number: int, words: Sequence[str]) -> str:
    text = f"{number}: {' '.join(words)}"
    return text if len(text) <= _LABEL else f"{text[: _LABEL - 1]}…"
