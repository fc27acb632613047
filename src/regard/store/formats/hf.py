"""Converts models of other libraries to ours, and back.

A Hugging Face folder, or a llama2.c checkpoint, is read as a `StoredModel`. Its `model_type` selects our model; it is
looked up in the tables of the models here and never leads anywhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.core import lookup, weights
from regard.core.articles import with_article
from regard.core.config import Config
from regard.core.conversion import conversions_of, nearest_conversion
from regard.core.errors import ConfigError, UsageError
from regard.core.names import distinct
from regard.data.text import Tokenizer, read_tokenizer
from regard.models import config_of, writes
from regard.store import hf_files as hf
from regard.store.hf_generation import search_of
from regard.store.hf_images import image_settings, processor_config
from regard.store.hf_settings import (
    TOKEN_NAMES,
    begins_with_bos,
    generation_config,
    pooling_of,
    sentence_limits,
    special_tokens,
    write_json,
    write_sentence_modules,
)
from regard.store.hf_translators import in_their_form, tokenizer_settings, translator_settings, unsaid_search
from regard.store.sizes import Extent, empty_model, vocabulary_size
from regard.store.stored_model import StoredModel

MODELS = "regard.models"


def supported() -> dict[str, str]:
    """`model_type` → the name of our model, from the folder listing."""
    tables = {name: conversions_of(lookup.find(MODELS, name)) for name in lookup.names(MODELS)}
    return {kind: name for name, own in tables.items() for table in own for kind in table.model_types}


def recognises(path: Path, config: Mapping[str, Any] | None) -> bool:
    return config is not None and "regard" not in config and "model_type" in config


def load(folder: Path, config: Mapping[str, Any] | None) -> StoredModel:
    """Read a Hugging Face folder; `config` is its config.json."""
    assert config is not None
    kind, known = str(config["model_type"]), supported()
    if kind not in known:
        raise ConfigError(
            f"{folder} holds a model that is not supported",
            got=f"model_type {kind[:60]!r}",
            expected=f"one of {', '.join(sorted(known))}",
        )
    name = known[kind]
    conversion = next(table for table in conversions_of(lookup.find(MODELS, name)) if kind in table.model_types)
    options, notes = hf.options(conversion, config), hf.code_in(config)
    extent = Extent.of(hf.weights_path(folder))
    labels = _add_labels(options, config, lookup.find(MODELS, name).Config, extent.bytes)
    if options.get("head") == "none" and (pooling := pooling_of(folder)):
        options |= {"head": "sentence", "pooling": pooling}
        labels |= sentence_limits(folder)
    options |= hf.without_parts(conversion, options, folder)
    ours = config_of(name, options, where=str(folder / "config.json"))
    model = empty_model(name, ours, extent, str(folder / "config.json"))
    if unused := hf.load_weights(model, conversion, config, folder):
        notes.append(f"not used by this head: {weights.brief(unused)}")
    generation = {**config, **hf.read_json(folder / "generation_config.json")}
    tokenizers = read_tokenizer(folder, config)
    source, target = tokenizers if isinstance(tokenizers, tuple) else (tokenizers, tokenizers)
    if (own := folder / "target_tokenizer.json").is_file():  # written by `save` if there are two tokenizers
        target = Tokenizer.load(own)
    extra: dict[str, Any] = {
        "tokens": special_tokens(generation, source, vocabulary_size(ours)),
        **labels,
        **image_settings(folder, ours),
    }
    if source is not None and begins_with_bos(folder, source):
        extra["begin"] = True
    task = lookup.find(MODELS, name).task_of(ours)
    search, unsupported = search_of(
        generation, extra["tokens"], translates=task == "translation", max_len=ours.model_dump().get("max_len")
    )
    if unsupported and writes(name, ours):
        notes.append(f"generation settings that are not supported: {', '.join(unsupported)}")
    stored = StoredModel(task, name, ours, model.eval(), source, target, search, extra=extra)
    stored.notes = notes
    return stored


def save(folder: Path, stored: StoredModel) -> None:
    """Write the model as a Hugging Face folder."""
    if not conversions_of(lookup.find(MODELS, stored.name)):
        raise UsageError(
            f"{with_article(stored.name)} does not exist in the other library",
            expected=f"one of {', '.join(sorted(set(supported().values())))}",
            remedy="Convert it to regard's own format: --to regard.",
        )
    stored = in_their_form(stored)
    conversion = nearest_conversion(lookup.find(MODELS, stored.name), stored.config.model_dump())
    tokens = stored.extra.get("tokens", {})
    hf.save(folder, stored.model, conversion, _described(stored))
    if writes(stored.name, stored.config):
        generation = generation_config(stored.search, tokens)
        if stored.task == "translation" and tokens:
            generation |= translator_settings(stored)
        write_json(folder / "generation_config.json", generation)
    source, target = stored.source_tokenizer, stored.target_tokenizer
    if stored.extra.get("begin") and source is not None and source is target and not source.begins:
        source = target = source.beginning()
    _save_tokenizers(folder, source, target)
    if stored.task == "translation" and source is not None and source is target:
        write_json(folder / "tokenizer_config.json", tokenizer_settings(stored))
    if image := stored.extra.get("image"):
        write_json(folder / "preprocessor_config.json", processor_config(image))
    if getattr(stored.config, "head", None) == "sentence":
        write_sentence_modules(folder, stored.config, stored.extra)


def unsaid(stored: StoredModel) -> list[str]:
    """What such a folder cannot store of the model, one line each."""
    if stored.task != "translation":
        return []
    lines = unsaid_search(stored.search)
    heads = stored.config.model_dump()
    if heads.get("n_decoder_heads") not in (None, heads.get("n_heads")):
        lines.append("CTranslate2 uses the encoder's number of heads on both sides, and would translate wrongly")
    if "decoder_start" in stored.extra.get("tokens", {}) and stored.source_tokenizer is not stored.target_tokenizer:
        lines.append(
            "its two tokenizers are written for regard only; for other libraries copy source.spm, target.spm and"
            " vocab.json from the original folder, and remove tokenizer.json"
        )
    return lines


def _described(stored: StoredModel) -> dict[str, Any]:
    """The fields of config.json besides sizes: special tokens and labels."""
    tokens = stored.extra.get("tokens", {})
    # Their translator configurations assume these two tokens unless they are set to null.
    extra: dict[str, Any] = {"bos_token_id": None, "forced_eos_token_id": None} if stored.task == "translation" else {}
    extra |= {f"{name}_token_id": tokens[name] for name in TOKEN_NAMES if tokens.get(name) is not None}
    if labels := stored.extra.get("labels"):
        extra |= {
            "id2label": {str(i): label for i, label in enumerate(labels)},
            "label2id": {label: i for i, label in enumerate(distinct([str(label) for label in labels]))},
        }
    elif "classif" in stored.task and (n_labels := getattr(stored.config, "n_labels", 0)):
        extra |= {"id2label": {str(i): f"LABEL_{i}" for i in range(n_labels)}}
    if stored.extra.get("regression"):
        extra["problem_type"] = "regression"
    if stored.extra.get("multi_label"):
        extra["problem_type"] = "multi_label_classification"
    return extra


def _save_tokenizers(folder: Path, source: Tokenizer | None, target: Tokenizer | None) -> None:
    if source is not None and target is not None and source is not target:
        # The other library keeps two vocabularies as sentencepiece files, which cannot be made from ours.
        source.save(folder / "tokenizer.json")
        target.save(folder / "target_tokenizer.json")
    elif source is not None:
        source.save(folder / "tokenizer.json")
        write_json(folder / "tokenizer_config.json", source.described())


def _add_labels(options: dict[str, Any], config: Mapping[str, Any], kind: type[Config], most: int) -> dict[str, Any]:
    """Set `n_labels` in the options; return the class names and how to read the logits."""
    classifies = options["head"] in ("classes", "token_classes") if "head" in options else "n_labels" not in options
    if "n_labels" not in kind.model_fields or not classifies:
        return {}
    labels = hf.labels(config, most)
    options["n_labels"] = len(labels)
    kind_of_problem = config.get("problem_type")
    if kind_of_problem == "multi_label_classification":
        return {"labels": labels, "multi_label": True}
    regression = kind_of_problem == "regression" or len(labels) == 1
    return {"labels": labels, **({"regression": True} if regression else {})}
