"""The smaller files of a Hugging Face folder: pooling of sentences, and generation of text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.core import weights
from regard.core.config import Config
from regard.core.errors import ConfigError
from regard.core.search import Search
from regard.data.text import Tokenizer
from regard.store.hf_files import read_json
from regard.store.hf_generation import constraints_of

TOKEN_NAMES = ("bos", "eos", "pad", "decoder_start", "forced_eos")
_SENTENCE_MODULES = [
    {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
    {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"},
]


_POOLINGS = {"mean": "mean", "cls": "first", "max": "max"}
_POOLING_FLAGS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}


def pooling_of(folder: Path) -> str | None:
    """How a sentence-transformers folder pools a text into one vector; None for other folders."""
    place = folder / "1_Pooling" / "config.json"
    if not (said := read_json(place)):
        return None
    named = said.get("pooling_mode")
    asked = [named] if named else [name for flag, name in _POOLING_FLAGS.items() if said.get(flag)] or ["mean"]
    dense = [
        module.get("type") for module in _listed(folder / "modules.json") if str(module.get("type")).endswith("Dense")
    ]
    if len(asked) != 1 or asked[0] not in _POOLINGS or dense:
        raise ConfigError(
            f"{place.parent.parent} pools sentences in a way that is not supported",
            got=", ".join(map(str, [*asked, *dense])),
            expected=f"one of {', '.join(_POOLINGS)}, and no layer after pooling",
        )
    return _POOLINGS[asked[0]]


def sentence_limits(folder: Path) -> dict[str, Any]:
    """The number of tokens of a text that are read, special tokens included, from sentence_bert_config.json."""
    place = folder / "sentence_bert_config.json"
    longest = read_json(place).get("max_seq_length")
    if longest is None:
        return {}
    if type(longest) is not int or longest < 3:
        raise ConfigError(f"{place}: max_seq_length is not a length", got=repr(longest)[:80], expected="3 or more")
    return {"max_seq_length": longest}


def _listed(path: Path) -> list[Mapping[str, Any]]:
    """A JSON file that holds a list of mappings; empty if there is no file."""
    try:
        entries = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path} cannot be read", got=error) from error
    return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []


def special_tokens(config: Mapping[str, Any], tokenizer: Tokenizer | None, size: int | None) -> dict[str, Any]:
    """The ids of special tokens: from the configuration, else from the tokenizer. There may be several end tokens.

    Some folders use −1 for a missing token. `size` is the size of the model's vocabulary.
    """
    tokens: dict[str, Any] = {}
    for name in TOKEN_NAMES:
        value = config.get(f"{name}_token_id")
        if value is None and tokenizer is not None:
            value = getattr(tokenizer.specials, name, None)
        several = value if isinstance(value, list) else [value]
        if several and all(type(token) is int and 0 <= token < (size or 1 << 31) for token in several):
            tokens[name] = several if name == "eos" and len(several) > 1 else several[0]
    return tokens


def begins_with_bos(folder: Path, tokenizer: Tokenizer) -> bool:
    """Whether texts begin with a special token: from tokenizer_config.json, else from tokenizer.json.

    Llama's first tokenizers, a tokenizer.model alone, always add it."""
    said = read_json(folder / "tokenizer_config.json").get("add_bos_token")
    if said is not None:
        return bool(said) and tokenizer.specials.bos is not None
    alone = (folder / "tokenizer.model").is_file() and not (folder / "tokenizer.json").is_file()
    return tokenizer.begins or (alone and tokenizer.specials.bos is not None)


def generation_config(search: Search, tokens: Mapping[str, Any]) -> dict[str, Any]:
    """Our options as their settings. Their length penalty has the form "mean"; other forms keep the exponent."""
    theirs: dict[str, Any] = {f"{name}_token_id": tokens[name] for name in TOKEN_NAMES if tokens.get(name) is not None}
    theirs |= {"num_beams": search.beam, "do_sample": search.sample, **constraints_of(search)}
    if search.beam > 1:  # without a beam they refuse a length penalty
        theirs["length_penalty"] = search.length_penalty
    if search.sample:
        theirs |= {"temperature": search.temperature, "top_k": search.top_k, "top_p": search.top_p}
        theirs |= {"min_p": search.min_p} if search.min_p > 0 else {}
    return theirs


def write_sentence_modules(folder: Path, config: Config, extra: Mapping[str, Any]) -> None:
    """The files that make a folder one of sentence-transformers."""
    write_json(folder / "modules.json", _SENTENCE_MODULES)
    (folder / "1_Pooling").mkdir(exist_ok=True)
    options = config.model_dump()
    theirs = next(name for name, ours in _POOLINGS.items() if ours == options["pooling"])
    flags = {flag: name == theirs for flag, name in _POOLING_FLAGS.items()}
    write_json(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": options["d_model"], **flags})
    if longest := extra.get("max_seq_length"):
        write_json(folder / "sentence_bert_config.json", {"max_seq_length": longest, "do_lower_case": False})


def write_json(path: Path, data: Any) -> None:
    with weights.replacing(path) as file:
        file.write((json.dumps(data, indent=2, ensure_ascii=False) + "\n").encode())
