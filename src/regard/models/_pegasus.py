"""Conversion of Pegasus' folders (Zhang et al. 2020) to `transformer`: Marian's layers with pre-norm, and a final norm
on each side.

There is one vocabulary. If embeddings and output share one matrix here (`share="all"`), they share it there too.
Otherwise all three matrices are stored, and the target's embedding once more as `shared`, which no library reads.
Transformers does not read `normalize_before` and `normalize_embedding`, but CTranslate2's converter needs them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from regard.attention.positions.sinusoidal import encode
from regard.core.conversion import Conversion
from regard.core.keymap import Copies, Drop, KeyMap, Rename, Row, Rule
from regard.models._marian import layers, read_fields, write_fields

if TYPE_CHECKING:
    from regard.models.transformer import TransformerConfig


def _read(config: Mapping[str, Any]) -> dict[str, Any]:
    options = read_fields(config)
    share = "all" if config.get("tie_word_embeddings", True) else "none"
    return {**options, "target_vocab": options["source_vocab"], "share": share}


def _write(config: TransformerConfig) -> dict[str, Any]:
    return {
        **write_fields(config),
        "tie_word_embeddings": config.share == "all",
        "is_encoder_decoder": True,
        "normalize_before": True,
        "normalize_embedding": False,
    }


def _keys(config: TransformerConfig) -> KeyMap:
    shared, source, target = (
        f"model.{part}.weight" for part in ("shared", "encoder.embed_tokens", "decoder.embed_tokens")
    )
    embeddings: list[Rule] = (
        [Rename("source_embedding.weight", shared), Drop(source), Drop(target), Drop("lm_head.weight")]
        if config.share == "all"
        else [
            Rename("source_embedding.weight", source),
            Copies("target_embedding.weight", (target, shared)),
            Rename("output.weight", "lm_head.weight"),
        ]
    )
    return KeyMap(
        [
            *embeddings,
            *layers("encoder", {"self": "self_attn"}),
            *layers("decoder", {"self": "self_attn", "cross": "encoder_attn"}),
            Rename("encoder_norm.{part}", "model.encoder.layer_norm.{part}"),
            Rename("decoder_norm.{part}", "model.decoder.layer_norm.{part}"),
            Row("output.bias", "final_logits_bias"),
            Drop("model.{side}.embed_positions.weight"),
        ]
    )


def _positions(config: TransformerConfig) -> dict[str, Tensor]:
    table = encode(torch.arange(config.max_len), config.d_model, pairs="halves").float()
    return {f"model.{side}.embed_positions.weight": table.clone() for side in ("encoder", "decoder")}


_REQUIRED = {"halves": True, "output_bias": True, "order": "pre", "position": "sinusoidal", "norm": "layer"}
PEGASUS = Conversion(
    model_types=("pegasus",),
    prefix="model.",
    heads=(("PegasusForConditionalGeneration", _REQUIRED),),
    to_ours=_read,
    to_theirs=_write,
    keys=_keys,
    constants=_positions,
)
