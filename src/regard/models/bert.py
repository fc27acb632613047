"""BERT (Devlin et al. 2019): a bidirectional encoder, and a head for each use.

    x = norm(E[token] + P[position] + S[segment])        x ← norm(x + attention(x)),  x ← norm(x + W₂ gelu(W₁ x))

head            from the states x                                  logits
none            x, and `pooled` = tanh(W x_CLS)                    –
masked_lm       E · norm(gelu(W x)) + b, the embedding tied        [B,T,V]
next_sentence   W pooled: 0 means the second text follows          `pair_logits` [B,2]
pretraining     both
classes         W dropout(pooled); one class is a regression       [B,C]
                `class_pooling` mean or max: `pooled` is that of x
token_classes   W dropout(x)                                       [B,T,C]
span            W x: where an answer begins and ends               [B,T,2]
sentence        `pooled` = mean of x over real tokens, length 1    –

Heads that do not use `pooled` have no pooler, as in the folders of other libraries.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from pydantic import Field as Bounded
from torch import Tensor, nn

from regard.attention import Mask
from regard.attention.heads import MultiHead
from regard.attention.positions.learned import Learned
from regard.core import taps
from regard.core.config import Config
from regard.core.conversion import ACTIVATIONS, Conversion, Field, FieldMap
from regard.core.errors import ConfigError
from regard.core.keymap import Drop, KeyMap, Rename
from regard.core.output import Output
from regard.core.pooling import Pooling, pool
from regard.layers.block import EncoderBlock, stack
from regard.layers.dropout import Dropout
from regard.layers.embedding import SegmentEmbedding, TiedOutput, TokenEmbedding
from regard.layers.feedforward import FeedForward, activate
from regard.layers.norm import make_norm
from regard.layers.residual import Residual

Head = Literal[
    "none", "masked_lm", "next_sentence", "pretraining", "classes", "token_classes", "span", "sentence"
]  # fmt: skip
_TASKS = {
    "none": "sentence_similarity",
    "sentence": "sentence_similarity",
    "masked_lm": "masked_lm",
    "pretraining": "masked_lm",
    "next_sentence": "next_sentence",
    "classes": "classification",
    "token_classes": "token_classification",
    "span": "question_answering",
}
_POOLED = ("none", "next_sentence", "pretraining", "classes")


class BertConfig(Config):
    vocab_size: int = Bounded(30522, gt=0)
    max_len: int = Bounded(512, gt=0)
    d_model: int = Bounded(768, gt=0)
    n_layers: int = Bounded(12, gt=0)
    n_heads: int = Bounded(12, gt=0)
    d_ff: int = Bounded(3072, gt=0)
    n_segments: int = Bounded(2, gt=0)
    activation: str = "gelu"
    dropout: float = Bounded(0.1, ge=0, lt=1)
    attention_dropout: float = Bounded(0.1, ge=0, lt=1)
    head_dropout: float | None = Bounded(None, ge=0, lt=1, description="before a classifier; None: dropout")
    eps: float = Bounded(1e-12, gt=0)
    first_positions: Literal["random", "sinusoidal"] = Bounded("random", description="how learned positions begin")
    head: Head = "none"
    n_labels: int = Bounded(2, gt=0)
    tie: bool = True
    pooling: Pooling = Bounded("mean", description="of the sentence head")
    class_pooling: Pooling = Bounded(
        "first", description="what a classifier reads: tanh(W x_CLS), or the mean or maximum of the states"
    )
    pooler: bool = Bounded(True, description="of a model without a head; some folders lack it")


# `base` and `large` are the paper's 110M and 340M; the smaller sizes are from Turc et al. 2019.
SIZES: dict[str, dict[str, Any]] = {
    "tiny": {"d_model": 128, "n_layers": 2, "n_heads": 2, "d_ff": 512},
    "mini": {"d_model": 256, "n_layers": 4, "n_heads": 4, "d_ff": 1024},
    "small": {"d_model": 512, "n_layers": 4, "n_heads": 8, "d_ff": 2048},
    "base": {"d_model": 768, "n_layers": 12, "n_heads": 12, "d_ff": 3072},
    "large": {"d_model": 1024, "n_layers": 24, "n_heads": 16, "d_ff": 4096},
}


class Bert(nn.Module):
    Config = BertConfig
    SIZES = SIZES
    conversion: Conversion

    @staticmethod
    def task_of(config: BertConfig) -> str:
        """The task of a loaded model."""
        return _TASKS[config.head]

    @staticmethod
    def longest_of(config: BertConfig) -> int | None:
        """The longest input of a model with this configuration, in tokens; None: no limit."""
        return config.max_len

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = TokenEmbedding(config.vocab_size, config.d_model)
        self.segment = SegmentEmbedding(config.n_segments, config.d_model)
        self.position = Learned(config.d_model, config.max_len, begin=config.first_positions)
        self.embedding_norm = make_norm("layer", config.d_model, config.eps)
        self.dropout = Dropout(config.dropout)
        self.encoder = stack(self._block, config.n_layers)
        self._add_head()
        for module in self.modules():
            if isinstance(module, (nn.Linear, TokenEmbedding, SegmentEmbedding)):
                nn.init.normal_(module.weight, std=0.02)
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)
        taps.name_sites(self)
        self.longest: int | None = self.longest_of(config)

    def _add_head(self) -> None:
        config, width = self.config, self.config.d_model
        # The head "sentence" does not use the pooler, but a converted folder keeps it.
        if self._pools or (config.head == "sentence" and config.pooler):
            self.pooler = nn.Linear(width, width)
        if config.head in ("masked_lm", "pretraining"):
            self.transform_dense = nn.Linear(width, width)
            self.transform_norm = make_norm("layer", width, config.eps)
            self.output: nn.Module = (
                TiedOutput(self.embedding, bias=True) if config.tie else nn.Linear(width, config.vocab_size)
            )
        if config.head in ("next_sentence", "pretraining"):
            self.pair = nn.Linear(width, 2)
        if config.head in ("classes", "token_classes", "span"):
            rate = config.dropout if config.head_dropout is None else config.head_dropout
            self.head_dropout = Dropout(0.0 if config.head == "span" else rate)
            self.classifier = nn.Linear(width, 2 if config.head == "span" else config.n_labels)

    @property
    def _pools(self) -> bool:
        config = self.config
        if config.head == "classes":
            return config.class_pooling == "first"
        return config.head in _POOLED and (config.pooler or config.head != "none")

    def forward(
        self,
        input_ids: Int[Tensor, "B T"],
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
    ) -> Output:
        """Run the model and its head. Real tokens are True or 1 in the mask; segments are 0 and 1."""
        hidden, head = self.states(input_ids, attention_mask, token_type_ids), self.config.head
        pooled = self.pool(hidden, attention_mask) if self._pools or head == "classes" else None
        logits = self.head_logits(hidden, pooled)
        pair_logits = self.pair(pooled) if head == "pretraining" else logits if head == "next_sentence" else None
        if head == "sentence":
            pooled = F.normalize(pool(hidden, attention_mask, self.config.pooling), dim=-1)
        return Output(hidden, logits, pooled, pair_logits)

    def head_logits(self, hidden: Float[Tensor, "B T D"], pooled: Float[Tensor, "B D"] | None = None) -> Tensor | None:
        """The head's logits as if this were the output of the last block; None if the head has no logits."""
        head = self.config.head
        if head in ("masked_lm", "pretraining"):
            return self.output(self.transform(hidden))
        if head in ("token_classes", "span"):
            return self.classifier(self.head_dropout(hidden))
        if head in ("classes", "next_sentence"):
            pooled = self.pool(hidden) if pooled is None else pooled
            return self.classifier(self.head_dropout(pooled)) if head == "classes" else self.pair(pooled)
        return None

    def states(
        self, input_ids: Int[Tensor, "B T"], attention_mask: Tensor | None = None, token_type_ids: Tensor | None = None
    ) -> Float[Tensor, "B T D"]:
        """The last layer's states."""
        positions = torch.arange(input_ids.shape[1], device=input_ids.device)
        segments = torch.zeros_like(input_ids) if token_type_ids is None else token_type_ids
        x = self.position.embed(self.embedding(input_ids) + self.segment(segments), positions)
        x = taps.point("encoder.input", self.dropout(self.embedding_norm(x)))
        mask = None if attention_mask is None else Mask(keys=attention_mask.bool())
        for block in self.encoder:
            x = block(x, mask=mask)
        return x

    def pool(self, hidden: Float[Tensor, "B T D"], attention_mask: Tensor | None = None) -> Float[Tensor, "B D"]:
        """One vector for the whole input: from its first token, or for a classifier as `class_pooling` says."""
        if self._pools:
            return torch.tanh(self.pooler(hidden[:, 0]))
        return pool(hidden, attention_mask, self.config.class_pooling)

    def transform(self, hidden: Float[Tensor, "*batch D"]) -> Float[Tensor, "*batch D"]:
        """The input of the output layer for masked tokens."""
        return self.transform_norm(activate(self.config.activation, self.transform_dense(hidden)))

    def _block(self) -> EncoderBlock:
        config = self.config
        attention = MultiHead(config.d_model, config.n_heads, dropout=config.attention_dropout)
        feedforward = FeedForward(config.d_model, config.d_ff, activation=config.activation)
        return EncoderBlock(attention, feedforward, self._residual)

    def _residual(self) -> Residual:
        config = self.config
        return Residual(make_norm("layer", config.d_model, config.eps), order="post", dropout=config.dropout)


_FIELDS = FieldMap(
    [
        Field("vocab_size", "vocab_size", 30522),
        Field("max_len", "max_position_embeddings", 512),
        Field("d_model", "hidden_size", 768),
        Field("n_layers", "num_hidden_layers", 12),
        Field("n_heads", "num_attention_heads", 12),
        Field("d_ff", "intermediate_size", 3072),
        Field("n_segments", "type_vocab_size", 2),
        Field("activation", "hidden_act", "gelu", ACTIVATIONS),
        Field("dropout", "hidden_dropout_prob", 0.1),
        Field("attention_dropout", "attention_probs_dropout_prob", 0.1),
        Field("head_dropout", "classifier_dropout", None),
        Field("eps", "layer_norm_eps", 1e-12),
        Field("tie", "tie_word_embeddings", True),
    ],
    fixed={"position_embedding_type": "absolute", "is_decoder": False, "add_cross_attention": False},
)


def _write(config: BertConfig) -> dict[str, Any]:
    if config.head == "classes" and config.class_pooling != "first":
        problem = f"the other library's classifiers read the first token, not class_pooling {config.class_pooling!r}"
        raise ConfigError(problem, remedy="Keep it in regard's own format.")
    return _FIELDS.to_theirs(config.model_dump())


def _output_rules(tie: bool) -> list[Rename | Drop]:
    """Their output layer stores its bias twice; untied models use `decoder.bias`."""
    weight, used, other = (f"cls.predictions.{name}" for name in ("decoder.weight", "decoder.bias", "bias"))
    if tie:
        return [Drop(weight), Rename("output.bias", other), Drop(used)]
    return [Rename("output.weight", weight), Rename("output.bias", used), Drop(other)]


def _keys(config: BertConfig) -> KeyMap:
    ours, theirs = "encoder.{i}.", "bert.encoder.layer.{i}."
    answer = "qa_outputs" if config.head == "span" else "classifier"
    return KeyMap(
        [
            Rename("embedding.weight", "bert.embeddings.word_embeddings.weight"),
            Rename("position.table.weight", "bert.embeddings.position_embeddings.weight"),
            Rename("segment.weight", "bert.embeddings.token_type_embeddings.weight"),
            Rename("embedding_norm.{part}", "bert.embeddings.LayerNorm.{part}"),
            *(
                Rename(f"{ours}self.{part}.{{part}}", f"{theirs}attention.self.{part}.{{part}}")
                for part in ("query", "key", "value")
            ),
            Rename(f"{ours}self.output.{{part}}", f"{theirs}attention.output.dense.{{part}}"),
            Rename(f"{ours}around_self.norm.{{part}}", f"{theirs}attention.output.LayerNorm.{{part}}"),
            Rename(f"{ours}feedforward.up.{{part}}", f"{theirs}intermediate.dense.{{part}}"),
            Rename(f"{ours}feedforward.down.{{part}}", f"{theirs}output.dense.{{part}}"),
            Rename(f"{ours}around_feedforward.norm.{{part}}", f"{theirs}output.LayerNorm.{{part}}"),
            Rename("pooler.{part}", "bert.pooler.dense.{part}"),
            Rename("transform_dense.{part}", "cls.predictions.transform.dense.{part}"),
            Rename("transform_norm.{part}", "cls.predictions.transform.LayerNorm.{part}"),
            *_output_rules(config.tie),
            Rename("pair.{part}", "cls.seq_relationship.{part}"),
            Rename("classifier.{part}", f"{answer}.{{part}}"),
            Drop("bert.embeddings.position_ids"),
        ]
    )


Bert.conversion = Conversion(
    model_types=("bert",),
    prefix="bert.",
    heads=(
        ("BertModel", {"head": "none"}),
        ("BertForMaskedLM", {"head": "masked_lm"}),
        ("BertForNextSentencePrediction", {"head": "next_sentence"}),
        ("BertForPreTraining", {"head": "pretraining"}),
        ("BertForSequenceClassification", {"head": "classes"}),
        ("BertForTokenClassification", {"head": "token_classes"}),
        ("BertForQuestionAnswering", {"head": "span"}),
        ("BertModel", {"head": "sentence"}),
    ),
    to_ours=_FIELDS.to_ours,
    to_theirs=_write,
    keys=_keys,
    bare=("BertModel",),
    optional=(("pooler", "pooler.dense.weight", ("none", "sentence")),),
    renamed={"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"},
)
