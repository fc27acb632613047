"""The Llama shape (Touvron et al. 2023): GPT-2's stack with RMS norm, rotary positions, gated feed-forward nets.

    x ← x + attention(rms(x)),  x ← x + W₂ (silu(W_g rms(x)) ⊙ W₁ rms(x))        N times
    logits = W · rms(x)

Keys and values may be shared by groups of heads (`n_kv_heads`). Positions turn query and keys (`rotary`, pairs of
feature i and i + d/2), so there is no longest input; past the trained length `scaling` helps without training: linear
divides the positions by `factor`, ntk raises the base to base · factor^(d/(d−2)).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field as Bounded
from torch import nn

from regard.attention.heads import MultiHead
from regard.attention.positions import Position
from regard.attention.positions.rotary import Rotary
from regard.attention.positions.rotary_ntk import RotaryNtk
from regard.core import taps
from regard.core.config import Config
from regard.core.errors import ConfigError
from regard.core.foreign import Field, FieldMap, Foreign
from regard.core.keymap import Drop, KeyMap, Rename
from regard.layers.block import EncoderBlock, stack
from regard.layers.embedding import TiedOutput, TokenEmbedding
from regard.layers.feedforward import FeedForward
from regard.layers.norm import make_norm
from regard.layers.residual import Residual
from regard.models._decoder import Decoder


class LlamaConfig(Config):
    vocab_size: int = Bounded(32000, gt=0)
    max_len: int = Bounded(2048, gt=0, description="the length it was trained for; longer inputs are allowed")
    d_model: int = Bounded(4096, gt=0)
    n_layers: int = Bounded(32, gt=0)
    n_heads: int = Bounded(32, gt=0)
    n_kv_heads: int | None = Bounded(None, gt=0, description="None: as many as heads")
    d_ff: int = Bounded(11008, gt=0)
    base: float = Bounded(10000.0, gt=0)
    scaling: Literal["none", "linear", "ntk"] = "none"
    factor: float = Bounded(1.0, ge=1)
    attention_dropout: float = Bounded(0.0, ge=0, lt=1)
    bias: bool = Bounded(False, description="biases in attention")
    feedforward_bias: bool = False
    eps: float = Bounded(1e-6, gt=0)
    tie: bool = False


SIZES: dict[str, dict[str, Any]] = {
    "stories15m": {"d_model": 288, "n_layers": 6, "n_heads": 6, "d_ff": 768, "max_len": 256, "eps": 1e-5, "tie": True},
    "7b": {},
    "13b": {"d_model": 5120, "n_layers": 40, "n_heads": 40, "d_ff": 13824},
}


class Llama(Decoder):
    Config = LlamaConfig
    SIZES = SIZES
    foreign: Foreign

    @staticmethod
    def task_of(config: LlamaConfig) -> str:
        """What a loaded model is used for."""
        return "language_model"

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = TokenEmbedding(config.vocab_size, config.d_model)
        self.position = self._rotary()
        self.decoder = stack(self._block, config.n_layers)
        self.norm = make_norm("rms", config.d_model, config.eps)
        self.output: nn.Module = (
            TiedOutput(self.embedding) if config.tie else nn.Linear(config.d_model, config.vocab_size, bias=False)
        )
        for module in self.modules():
            if isinstance(module, (nn.Linear, TokenEmbedding)):
                nn.init.normal_(module.weight, std=0.02)
        taps.name_sites(self)
        self.longest: int | None = None
        self.coverage_site: str | None = None

    def _rotary(self) -> Position:
        config, d_head = self.config, self.config.d_model // self.config.n_heads
        if config.scaling == "ntk":
            return RotaryNtk(d_head, factor=config.factor, base=config.base, pairs="halves")
        scale = config.factor if config.scaling == "linear" else 1.0
        return Rotary(d_head, base=config.base, scale=scale, pairs="halves")

    def _block(self) -> EncoderBlock:
        config = self.config
        attention = MultiHead(
            config.d_model,
            config.n_heads,
            n_kv_heads=config.n_kv_heads,
            position=self.position,
            dropout=config.attention_dropout,
            bias=config.bias,
        )
        feedforward = FeedForward(config.d_model, config.d_ff, activation="swiglu", bias=config.feedforward_bias)
        return EncoderBlock(attention, feedforward, self._residual)

    def _residual(self) -> Residual:
        return Residual(make_norm("rms", self.config.d_model, self.config.eps), order="pre")


_FIELDS = FieldMap(
    [
        Field("vocab_size", "vocab_size", 32000),
        Field("max_len", "max_position_embeddings", 2048),
        Field("d_model", "hidden_size", 4096),
        Field("n_layers", "num_hidden_layers", 32),
        Field("n_heads", "num_attention_heads", 32),
        Field("n_kv_heads", "num_key_value_heads", None),
        Field("d_ff", "intermediate_size", 11008),
        Field("attention_dropout", "attention_dropout", 0.0),
        Field("bias", "attention_bias", False),
        Field("feedforward_bias", "mlp_bias", False),
        Field("eps", "rms_norm_eps", 1e-6),
        Field("tie", "tie_word_embeddings", False),
    ],
    fixed={"hidden_act": "silu"},
)


def _read(config: Mapping[str, Any]) -> dict[str, Any]:
    """Rotary settings stand in `rope_parameters`, in older folders in `rope_theta` and `rope_scaling`."""
    options = _FIELDS.to_ours(config)
    width = config.get("head_dim") or options["d_model"] // options["n_heads"]
    if width * options["n_heads"] != options["d_model"]:
        raise ConfigError(
            "config.json asks for what is not supported", got=f"head_dim {width}", expected="hidden_size / heads"
        )
    rope = {**(config.get("rope_scaling") or {}), **(config.get("rope_parameters") or {})}
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind not in ("default", "linear"):
        raise ConfigError(
            "config.json: this kind of rotary scaling is not supported", got=kind, expected="default or linear"
        )
    return {
        **options,
        "base": rope.get("rope_theta", config.get("rope_theta", 10000.0)),
        "scaling": "linear" if kind == "linear" else "none",
        "factor": rope.get("factor", 1.0) if kind == "linear" else 1.0,
    }


def _write(config: LlamaConfig) -> dict[str, Any]:
    """NTK scaling is another base, and is written as one."""
    d_head = config.d_model // config.n_heads
    raised = config.factor ** (d_head / max(d_head - 2, 1)) if config.scaling == "ntk" else 1.0
    rope: dict[str, Any] = {"rope_theta": config.base * raised, "rope_type": "default"}
    if config.scaling == "linear":
        rope |= {"rope_type": "linear", "factor": config.factor}
    theirs = _FIELDS.to_theirs(config.model_dump())
    return {**theirs, "num_key_value_heads": config.n_kv_heads or config.n_heads, "rope_parameters": rope}


def _keys(config: LlamaConfig) -> KeyMap:
    ours, theirs = "decoder.{i}.", "model.layers.{i}."
    attention = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "o_proj"}
    return KeyMap(
        [
            Rename("embedding.weight", "model.embed_tokens.weight"),
            *(
                Rename(f"{ours}self.{one}.{{part}}", f"{theirs}self_attn.{other}.{{part}}")
                for one, other in attention.items()
            ),
            *(
                Rename(f"{ours}feedforward.{part}.{{part}}", f"{theirs}mlp.{part}_proj.{{part}}")
                for part in ("gate", "up", "down")
            ),
            Rename(f"{ours}around_self.norm.weight", f"{theirs}input_layernorm.weight"),
            Rename(f"{ours}around_feedforward.norm.weight", f"{theirs}post_attention_layernorm.weight"),
            Rename("norm.weight", "model.norm.weight"),
            Drop("lm_head.weight") if config.tie else Rename("output.weight", "lm_head.weight"),
            Drop(f"{theirs}self_attn.rotary_emb.inv_freq"),
        ]
    )


Llama.foreign = Foreign(
    model_types=("llama",),
    prefix="model.",
    heads=(("LlamaForCausalLM", {}), ("LlamaModel", {})),
    read=_read,
    write=_write,
    keys=_keys,
    bare=("LlamaModel",),
)
