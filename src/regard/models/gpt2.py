"""GPT-2 (Radford et al. 2019): a stack of masked self-attention blocks that predicts the next token.

    x_t = E[token_t] + P[t]        x ← x + attention(norm(x)),  x ← x + W₂ gelu(W₁ norm(x))  (N times)
    logits = E · norm(x)           the output layer is the transposed embedding (`tie`)

Padding may be on either side: positions count real tokens, and no token sees padding. Any position scheme can replace
learned positions.

Weights are initialised as in the paper: normal(0, 0.02), with projections into the residual stream scaled by 1/√(2N).
"""

from __future__ import annotations

from typing import Any

from pydantic import Field as Bounded
from torch import Tensor, nn

from regard.attention.heads import MultiHead
from regard.attention.positions import is_bounded, make_position
from regard.attention.scores.dot import Dot
from regard.attention.scores.scaled_dot import ScaledDot
from regard.core import taps
from regard.core.config import Config
from regard.core.conversion import ACTIVATIONS, Conversion, Field, FieldMap
from regard.core.keymap import Drop, KeyMap, Pack, Rename, Transpose
from regard.layers.block import EncoderBlock
from regard.layers.dropout import Dropout
from regard.layers.embedding import TokenEmbedding
from regard.layers.feedforward import FeedForward
from regard.layers.norm import make_norm
from regard.layers.residual import Residual
from regard.models._decoder import Decoder, Head


class Gpt2Config(Config):
    vocab_size: int = Bounded(50257, gt=0)
    max_len: int = Bounded(1024, gt=0)
    d_model: int = Bounded(768, gt=0)
    n_layers: int = Bounded(12, gt=0)
    n_heads: int = Bounded(12, gt=0)
    d_ff: int | None = Bounded(None, gt=0, description="None: 4 · d_model")
    activation: str = "gelu_tanh"
    position: str = "learned"
    scaled: bool = Bounded(True, description="scores are divided by √d_head")
    layer_scaled: bool = Bounded(False, description="scores are also divided by the layer's number, from 1 on")
    dropout: float = Bounded(0.1, ge=0, lt=1)
    attention_dropout: float = Bounded(0.1, ge=0, lt=1)
    embedding_dropout: float = Bounded(0.1, ge=0, lt=1)
    eps: float = Bounded(1e-5, gt=0)
    tie: bool = True
    head: Head = "tokens"
    n_labels: int = Bounded(2, gt=0, description="of the head for classes")


# The four published sizes: 124M, 355M, 774M and 1.5B parameters.
SIZES: dict[str, dict[str, Any]] = {
    "tiny": {"d_model": 128, "n_layers": 4, "n_heads": 4, "max_len": 256},
    "small": {"d_model": 768, "n_layers": 12, "n_heads": 12},
    "medium": {"d_model": 1024, "n_layers": 24, "n_heads": 16},
    "large": {"d_model": 1280, "n_layers": 36, "n_heads": 20},
    "xl": {"d_model": 1600, "n_layers": 48, "n_heads": 25},
}


class Gpt2(Decoder):
    Config = Gpt2Config
    SIZES = SIZES
    conversion: Conversion

    @staticmethod
    def longest_of(config: Gpt2Config) -> int | None:
        """The longest input of a model with this configuration, in tokens; None: no limit."""
        return config.max_len if is_bounded(config.position) else None

    def __init__(self, config: Gpt2Config) -> None:
        super().__init__()
        self.config = config
        self.embedding = TokenEmbedding(config.vocab_size, config.d_model)
        self.position = make_position(
            config.position,
            d_model=config.d_model,
            d_head=config.d_model // config.n_heads,
            n_heads=config.n_heads,
            max_len=config.max_len,
            bidirectional=False,
        )
        self.dropout = Dropout(config.embedding_dropout)
        self.decoder = nn.ModuleList(self._block(number) for number in range(1, config.n_layers + 1))
        self.norm = make_norm("layer", config.d_model, config.eps)
        self.output = self.make_head()
        self._initialize()
        taps.name_sites(self)
        self.longest: int | None = self.longest_of(config)
        self.coverage_site: str | None = None

    def embed(self, input_ids: Tensor, positions: Tensor) -> Tensor:
        return self.dropout(self.position.embed(self.embedding(input_ids), positions))

    def _block(self, number: int) -> EncoderBlock:
        config = self.config
        score = (ScaledDot if config.scaled else Dot)(divisor=float(number) if config.layer_scaled else 1.0)
        attention = MultiHead(
            config.d_model,
            config.n_heads,
            score=score,
            position=self.position if self.position.inside else None,
            dropout=config.attention_dropout,
        )
        feedforward = FeedForward(config.d_model, config.d_ff or 4 * config.d_model, activation=config.activation)
        return EncoderBlock(attention, feedforward, self._residual)

    def _residual(self) -> Residual:
        config = self.config
        return Residual(make_norm("layer", config.d_model, config.eps), order="pre", dropout=config.dropout)

    def _initialize(self) -> None:
        for name, module in self.named_modules():
            if isinstance(module, (nn.Linear, TokenEmbedding)):
                into_residual = name.endswith(("self.output", "feedforward.down"))
                nn.init.normal_(module.weight, std=0.02 / ((2 * self.config.n_layers) ** 0.5 if into_residual else 1))
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)


_FIELDS = FieldMap(
    [
        Field("vocab_size", "vocab_size", 50257),
        Field("max_len", "n_positions", 1024),
        Field("d_model", "n_embd", 768),
        Field("n_layers", "n_layer", 12),
        Field("n_heads", "n_head", 12),
        Field("d_ff", "n_inner", None),
        Field("activation", "activation_function", "gelu_new", ACTIVATIONS),
        Field("scaled", "scale_attn_weights", True),
        Field("layer_scaled", "scale_attn_by_inverse_layer_idx", False),
        Field("dropout", "resid_pdrop", 0.1),
        Field("attention_dropout", "attn_pdrop", 0.1),
        Field("embedding_dropout", "embd_pdrop", 0.1),
        Field("eps", "layer_norm_epsilon", 1e-5),
        Field("tie", "tie_word_embeddings", True),
    ],
    fixed={"add_cross_attention": False},
)


def _keys(config: Gpt2Config) -> KeyMap:
    head = "score.weight" if config.head == "classes" else "lm_head.weight"
    ours, theirs = "decoder.{i}.", "transformer.h.{i}."
    parts = [f"{ours}self.{part}." for part in ("query", "key", "value")]
    return KeyMap(
        [
            Rename("embedding.weight", "transformer.wte.weight"),
            Rename("position.table.weight", "transformer.wpe.weight"),
            Pack([f"{part}weight" for part in parts], f"{theirs}attn.c_attn.weight", transpose=True),
            Pack([f"{part}bias" for part in parts], f"{theirs}attn.c_attn.bias"),
            Transpose(f"{ours}self.output.weight", f"{theirs}attn.c_proj.weight"),
            Rename(f"{ours}self.output.bias", f"{theirs}attn.c_proj.bias"),
            Rename(f"{ours}around_self.norm.{{part}}", f"{theirs}ln_1.{{part}}"),
            Rename(f"{ours}around_feedforward.norm.{{part}}", f"{theirs}ln_2.{{part}}"),
            Transpose(f"{ours}feedforward.up.weight", f"{theirs}mlp.c_fc.weight"),
            Rename(f"{ours}feedforward.up.bias", f"{theirs}mlp.c_fc.bias"),
            Transpose(f"{ours}feedforward.down.weight", f"{theirs}mlp.c_proj.weight"),
            Rename(f"{ours}feedforward.down.bias", f"{theirs}mlp.c_proj.bias"),
            Rename("norm.{part}", "transformer.ln_f.{part}"),
            Drop(head) if config.tie and config.head == "tokens" else Rename("output.weight", head),
            Drop(f"{theirs}attn.bias"),
            Drop(f"{theirs}attn.masked_bias"),
        ]
    )


Gpt2.conversion = Conversion(
    model_types=("gpt2",),
    prefix="transformer.",
    heads=(
        ("GPT2LMHeadModel", {"position": "learned", "head": "tokens"}),
        ("GPT2ForSequenceClassification", {"position": "learned", "head": "classes"}),
        ("GPT2Model", {"position": "learned"}),
    ),
    to_ours=_FIELDS.to_ours,
    to_theirs=lambda config: _FIELDS.to_theirs(config.model_dump()),
    keys=_keys,
    bare=("GPT2Model",),
)
