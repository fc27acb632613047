"""The Llama architecture (Touvron et al. 2023): GPT-2's stack with RMS norm, rotary positions and gated feed-forward.

    x ← x + attention(rms(x)),  x ← x + W₂ (silu(W_g rms(x)) ⊙ W₁ rms(x))        N times
    logits = W · rms(x)

Groups of heads may share keys and values (`n_kv_heads`). Positions rotate query and keys (`rotary`, pairs of feature i
and i + d/2), so there is no length limit. Past the trained length `scaling` helps without further training: linear
divides the positions by `factor`, ntk raises the base to base · factor^(d/(d−2)), and llama3 and yarn stretch only the
slow frequencies, selected by their number of turns in `trained_len` positions.

Folders of Mistral and Qwen2 are read as this model too: Mistral is Llama with a `window`, Qwen2 is Llama with biases on
query, keys and values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field as Bounded
from torch import nn

from regard.attention.heads import MultiHead
from regard.attention.positions import Position
from regard.attention.positions.rotary import Rotary
from regard.attention.positions.rotary_llama3 import RotaryLlama3
from regard.attention.positions.rotary_ntk import RotaryNtk
from regard.attention.positions.rotary_yarn import RotaryYarn
from regard.core import taps
from regard.core.config import Config
from regard.core.conversion import Conversion, Field, FieldMap
from regard.core.errors import ConfigError
from regard.core.keymap import Drop, KeyMap, Rename
from regard.layers.block import EncoderBlock, stack
from regard.layers.embedding import TokenEmbedding
from regard.layers.feedforward import FeedForward
from regard.layers.norm import make_norm
from regard.layers.residual import Residual
from regard.models._decoder import Decoder, Head


class LlamaConfig(Config):
    vocab_size: int = Bounded(32000, gt=0)
    max_len: int = Bounded(2048, gt=0, description="the length it was trained for; longer inputs are allowed")
    d_model: int = Bounded(4096, gt=0)
    n_layers: int = Bounded(32, gt=0)
    n_heads: int = Bounded(32, gt=0)
    n_kv_heads: int | None = Bounded(None, gt=0, description="None: as many as heads")
    d_head: int | None = Bounded(None, gt=0, description="None: d_model / n_heads")
    d_ff: int = Bounded(11008, gt=0)
    base: float = Bounded(10000.0, gt=0)
    scaling: Literal["none", "linear", "ntk", "llama3", "yarn"] = "none"
    factor: float = Bounded(1.0, ge=1)
    trained_len: int | None = Bounded(None, gt=0, description="for llama3 and yarn; None: max_len")
    few_turns: float = Bounded(1.0, gt=0, description="llama3 and yarn: frequencies with fewer turns are stretched")
    many_turns: float = Bounded(4.0, gt=0, description="llama3 and yarn: frequencies with more turns are kept")
    gain: float | None = Bounded(None, gt=0, description="yarn: on query and keys; None: 0.1 · ln(factor) + 1")
    attention_dropout: float = Bounded(0.0, ge=0, lt=1)
    bias: bool = Bounded(False, description="biases in attention")
    output_bias: bool | None = Bounded(None, description="on attention's output; None: same as bias")
    feedforward_bias: bool = False
    eps: float = Bounded(1e-6, gt=0)
    tie: bool = False
    window: int | None = Bounded(None, gt=0, description="tokens that a token sees, itself included; None: all")
    head: Head = "tokens"
    n_labels: int = Bounded(2, gt=0, description="of the head for classes")


SIZES: dict[str, dict[str, Any]] = {
    "stories15m": {"d_model": 288, "n_layers": 6, "n_heads": 6, "d_ff": 768, "max_len": 256, "eps": 1e-5, "tie": True},
    "7b": {},
    "13b": {"d_model": 5120, "n_layers": 40, "n_heads": 40, "d_ff": 13824},
}


class Llama(Decoder):
    Config = LlamaConfig
    SIZES = SIZES
    conversion: Conversion

    @staticmethod
    def longest_of(config: LlamaConfig) -> int | None:
        """The longest input of a model with this configuration, in tokens; None: no limit."""
        return None

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = TokenEmbedding(config.vocab_size, config.d_model)
        self.position = self._rotary()
        self.decoder = stack(self._block, config.n_layers)
        self.norm = make_norm("rms", config.d_model, config.eps)
        self.output = self.make_head()
        for module in self.modules():
            if isinstance(module, (nn.Linear, TokenEmbedding)):
                nn.init.normal_(module.weight, std=0.02)
        taps.name_sites(self)
        self.longest: int | None = self.longest_of(config)
        self.reach = config.window
        self.coverage_site: str | None = None

    def _rotary(self) -> Position:
        config, d_head = self.config, head_width(self.config)
        by_turns: dict[str, Any] = {
            "factor": config.factor,
            "trained_len": config.trained_len or config.max_len,
            "few": config.few_turns,
            "many": config.many_turns,
            "base": config.base,
            "pairs": "halves",
        }
        if config.scaling == "llama3":
            return RotaryLlama3(d_head, **by_turns)
        if config.scaling == "yarn":
            return RotaryYarn(d_head, gain=config.gain, **by_turns)
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
            d_head=config.d_head,
            position=self.position,
            dropout=config.attention_dropout,
            bias=config.bias,
        )
        if config.bias and config.output_bias is False:
            attention.output.register_parameter("bias", None)
        feedforward = FeedForward(config.d_model, config.d_ff, activation="swiglu", bias=config.feedforward_bias)
        return EncoderBlock(attention, feedforward, self._residual)

    def _residual(self) -> Residual:
        return Residual(make_norm("rms", self.config.d_model, self.config.eps), order="pre")


def head_width(config: LlamaConfig) -> int:
    """The width of one head."""
    return config.d_head or config.d_model // config.n_heads


_FIELDS = FieldMap(
    [
        Field("vocab_size", "vocab_size", 32000),
        Field("max_len", "max_position_embeddings", 2048),
        Field("d_model", "hidden_size", 4096),
        Field("n_layers", "num_hidden_layers", 32),
        Field("n_heads", "num_attention_heads", 32),
        Field("n_kv_heads", "num_key_value_heads", None),
        Field("d_head", "head_dim", None),
        Field("d_ff", "intermediate_size", 11008),
        Field("attention_dropout", "attention_dropout", 0.0),
        Field("bias", "attention_bias", False),
        Field("feedforward_bias", "mlp_bias", False),
        Field("eps", "rms_norm_eps", 1e-6),
        Field("tie", "tie_word_embeddings", False),
    ],
    fixed={"hidden_act": "silu"},
)


_QWEN2 = {"bias": True, "output_bias": False, "window": None}

# Further settings of their rotary scaling, besides kind and factor: our option, their name, their default.
_TURNS = {
    "llama3": (("few_turns", "low_freq_factor", 1.0), ("many_turns", "high_freq_factor", 4.0)),
    "yarn": (("few_turns", "beta_slow", 1.0), ("many_turns", "beta_fast", 32.0), ("gain", "attention_factor", None)),
}


def _read(config: Mapping[str, Any]) -> dict[str, Any]:
    """Read the rotary settings from `rope_parameters`, or in older folders from `rope_theta` and `rope_scaling`."""
    options, kind = _FIELDS.to_ours(config), config.get("model_type")
    if kind == "mistral":
        options["window"] = config.get("sliding_window", 4096)
    elif config.get("use_sliding_window"):
        raise ConfigError("config.json: windows in only some layers are not supported", got="use_sliding_window true")
    if kind == "qwen2":
        options |= _QWEN2
    return {**options, **_rotary(config, options["max_len"])}


def _rotary(config: Mapping[str, Any], max_len: int) -> dict[str, Any]:
    rope = {**(config.get("rope_scaling") or {}), **(config.get("rope_parameters") or {})}
    kind = rope.get("rope_type", rope.get("type", "default"))
    known = ("default", "linear", *_TURNS)
    unsupported = {name: rope[name] for name in ("mscale", "mscale_all_dim") if rope.get(name)}
    unsupported |= {"partial_rotary_factor": share} if (share := rope.get("partial_rotary_factor", 1.0)) != 1.0 else {}
    unsupported |= {"truncate": False} if rope.get("truncate") is False else {}
    if kind not in known or unsupported:
        raise ConfigError(
            "config.json: this kind of rotary scaling is not supported",
            got=", ".join([str(kind), *(f"{name} {value}" for name, value in unsupported.items())]),
            expected=f"one of {', '.join(known)}, without other settings",
        )
    options = {"base": rope.get("rope_theta", config.get("rope_theta", 10000.0)), "scaling": "none"}
    if kind == "default":
        return options
    options |= {"scaling": kind, "factor": rope.get("factor", 1.0)}
    if kind in _TURNS:
        options["trained_len"] = rope.get("original_max_position_embeddings") or max_len
        options |= {
            ours: default if rope.get(theirs) is None else rope[theirs] for ours, theirs, default in _TURNS[kind]
        }
    return options


def _write(config: LlamaConfig) -> dict[str, Any]:
    """Our configuration → theirs. NTK scaling is written as a larger base, which is equivalent."""
    d_head = head_width(config)
    raised = config.factor ** (d_head / max(d_head - 2, 1)) if config.scaling == "ntk" else 1.0
    rope: dict[str, Any] = {"rope_theta": config.base * raised, "rope_type": "default"}
    if config.scaling in ("linear", *_TURNS):
        rope |= {"rope_type": config.scaling, "factor": config.factor}
    if config.scaling in _TURNS:
        rope["original_max_position_embeddings"] = config.trained_len or config.max_len
        turns = {theirs: getattr(config, ours) for ours, theirs, _ in _TURNS[config.scaling]}
        rope |= {name: value for name, value in turns.items() if value is not None}
    return {
        **_FIELDS.to_theirs(config.model_dump()),
        "num_key_value_heads": config.n_kv_heads or config.n_heads,
        "head_dim": d_head,
        "rope_parameters": rope,
        **({"model_type": "qwen2"} if config.bias and config.output_bias is False else {}),
        **({"model_type": "mistral", "sliding_window": config.window} if config.window else {}),
    }


def _keys(config: LlamaConfig) -> KeyMap:
    head = "score.weight" if config.head == "classes" else "lm_head.weight"
    ours, theirs = "decoder.{i}.", "model.layers.{i}."
    attention = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "o_proj"}
    return KeyMap(
        [
            Rename("embedding.weight", "model.embed_tokens.weight"),
            *(
                Rename(f"{ours}self.{our_name}.{{part}}", f"{theirs}self_attn.{their_name}.{{part}}")
                for our_name, their_name in attention.items()
            ),
            *(
                Rename(f"{ours}feedforward.{part}.{{part}}", f"{theirs}mlp.{part}_proj.{{part}}")
                for part in ("gate", "up", "down")
            ),
            Rename(f"{ours}around_self.norm.weight", f"{theirs}input_layernorm.weight"),
            Rename(f"{ours}around_feedforward.norm.weight", f"{theirs}post_attention_layernorm.weight"),
            Rename("norm.weight", "model.norm.weight"),
            Drop(head) if config.tie and config.head == "tokens" else Rename("output.weight", head),
            Drop(f"{theirs}self_attn.rotary_emb.inv_freq"),
        ]
    )


_PLAIN = {"output_bias": None, "window": None}  # without a window, Mistral equals Llama and is written as Llama
Llama.conversion = Conversion(
    model_types=("llama", "mistral", "qwen2"),
    prefix="model.",
    heads=(
        ("LlamaForCausalLM", {"head": "tokens", **_PLAIN}),
        ("LlamaForSequenceClassification", {"head": "classes", **_PLAIN}),
        ("LlamaModel", _PLAIN),
        ("Qwen2ForCausalLM", {"head": "tokens", **_QWEN2}),
        ("Qwen2ForSequenceClassification", {"head": "classes", **_QWEN2}),
        ("Qwen2Model", _QWEN2),
        ("MistralForCausalLM", {"head": "tokens", "bias": False}),
        ("MistralForSequenceClassification", {"head": "classes", "bias": False}),
        ("MistralModel", {"bias": False}),
    ),
    to_ours=_read,
    to_theirs=_write,
    keys=_keys,
    bare=("LlamaModel", "MistralModel", "Qwen2Model"),
)
