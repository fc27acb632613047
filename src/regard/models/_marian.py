"""Conversion of Marian's folders (Junczys-Dowmunt et al. 2018) to `transformer`: names of fields and parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from regard.core.conversion import ACTIVATIONS, Conversion, FieldMap
from regard.core.conversion import Field as Named
from regard.core.errors import ConfigError
from regard.core.keymap import Drop, KeyMap, Rename, Row

if TYPE_CHECKING:
    from regard.models.transformer import TransformerConfig

_FIELDS = FieldMap(
    [
        Named("source_vocab", "vocab_size"),
        Named("d_model", "d_model", 1024),
        Named("n_heads", "encoder_attention_heads", 16),
        Named("n_decoder_heads", "decoder_attention_heads", 16),
        Named("d_ff", "encoder_ffn_dim", 4096),
        Named("d_decoder_ff", "decoder_ffn_dim", 4096),
        Named("n_encoder_layers", "encoder_layers", 12),
        Named("n_decoder_layers", "decoder_layers", 12),
        Named("dropout", "dropout", 0.1),
        Named("attention_dropout", "attention_dropout", 0.0),
        Named("activation_dropout", "activation_dropout", 0.0),
        Named("activation", "activation_function", "gelu", ACTIVATIONS),
        Named("scale", "scale_embedding", False),
        Named("max_len", "max_position_embeddings", 1024),
    ]
)
_ALIKE = {"n_decoder_heads": "n_heads", "d_decoder_ff": "d_ff"}  # left out where both sides are equal


def read_fields(config: Mapping[str, Any]) -> dict[str, Any]:
    """Their configuration → our options, without the options for shared embeddings."""
    options = _FIELDS.to_ours(config)
    for decoder, encoder in _ALIKE.items():
        options[decoder] = None if options[decoder] == options[encoder] else options[decoder]
    return options


def write_fields(config: TransformerConfig) -> dict[str, Any]:
    options = config.model_dump()
    both = {
        decoder: options[encoder] if options[decoder] is None else options[decoder]
        for decoder, encoder in _ALIKE.items()
    }
    return _FIELDS.to_theirs({**options, **both})


def _read(config: Mapping[str, Any]) -> dict[str, Any]:
    options = read_fields(config)
    tied, shared = config.get("tie_word_embeddings", True), config.get("share_encoder_decoder_embeddings", True)
    share = "none" if not tied else "all" if shared else "target"
    target = config.get("decoder_vocab_size") or options["source_vocab"]
    if share == "none" and shared:
        raise ConfigError("config.json: both sides share an embedding but the output does not, which is not supported")
    return {**options, "target_vocab": target, "share": share}


def _write(config: TransformerConfig) -> dict[str, Any]:
    return {
        **write_fields(config),
        "decoder_vocab_size": config.target_vocab,
        "tie_word_embeddings": config.share != "none",
        "share_encoder_decoder_embeddings": config.share == "all",
        "is_encoder_decoder": True,
    }


def layers(side: str, parts: Mapping[str, str]) -> list[Rename]:
    """The rules of one side's layers; `parts` maps our sub-layers to theirs."""
    ours, theirs = f"{side}.{{i}}.", f"model.{side}.layers.{{i}}."
    names = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "out_proj"}
    rules = [
        Rename(f"{ours}{our_part}.{our_name}.{{part}}", f"{theirs}{their_part}.{their_name}.{{part}}")
        for our_part, their_part in parts.items()
        for our_name, their_name in names.items()
    ]
    rules += [
        Rename(f"{ours}around_{our_part}.norm.{{part}}", f"{theirs}{their_part}_layer_norm.{{part}}")
        for our_part, their_part in parts.items()
    ]
    return [
        *rules,
        Rename(f"{ours}feedforward.up.{{part}}", f"{theirs}fc1.{{part}}"),
        Rename(f"{ours}feedforward.down.{{part}}", f"{theirs}fc2.{{part}}"),
        Rename(f"{ours}around_feedforward.norm.{{part}}", f"{theirs}final_layer_norm.{{part}}"),
    ]


def _keys(config: TransformerConfig) -> KeyMap:
    shared = config.share == "all"
    embeddings = ["model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"]
    return KeyMap(
        [
            Rename("source_embedding.weight", "model.shared.weight" if shared else embeddings[0]),
            *([Drop(name) for name in embeddings] if shared else [Rename("target_embedding.weight", embeddings[1])]),
            *([] if shared else [Drop("model.shared.weight")]),
            *layers("encoder", {"self": "self_attn"}),
            *layers("decoder", {"self": "self_attn", "cross": "encoder_attn"}),
            Row("output.bias", "final_logits_bias"),
            Rename("output.weight", "lm_head.weight") if config.share == "none" else Drop("lm_head.weight"),
            Drop("model.{side}.embed_positions.weight"),
        ]
    )


_REQUIRED = {"halves": True, "output_bias": True, "order": "post", "position": "sinusoidal", "norm": "layer"}
MARIAN = Conversion(
    model_types=("marian",),
    prefix="model.",
    heads=(("MarianMTModel", _REQUIRED),),
    to_ours=_read,
    to_theirs=_write,
    keys=_keys,
)
