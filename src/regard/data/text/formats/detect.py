"""Reads the tokenizer of a Hugging Face folder. It uses the first of these files that the folder holds:

    tokenizer.json                      any kind, as written by the `tokenizers` library
    source.spm, target.spm, vocab.json  Marian: a tokenizer for each side
    vocab.txt                           BERT
    vocab.json, merges.txt              GPT-2
    tokenizer.model or spiece.model     sentencepiece: Llama, T5

The special tokens are named by tokenizer_config.json, special_tokens_map.json, or by id in the model's config.json; if
not, by their usual names in such vocabularies. Names of classes and of code in these files are never followed.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tokenizers

from regard.core.errors import DataError
from regard.data.text._library import guarded
from regard.data.text._limits import checked_growth
from regard.data.text.formats import vocabulary
from regard.data.text.formats._file import REMEDY, mapping, text
from regard.data.text.formats.sentencepiece import marian_tokenizers, spm_tokenizer
from regard.data.text.specials import specials_of
from regard.data.text.tokenizer import Tokenizer

_USUAL = (
    {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")},
    {"pad_token": "<pad>", "unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"},
    dict.fromkeys(("bos_token", "eos_token"), vocabulary.END_OF_TEXT),
)
_MARIAN = ("source.spm", "target.spm", "vocab.json")


def read_tokenizer(
    folder: Path, config: Mapping[str, Any] | None = None
) -> Tokenizer | tuple[Tokenizer, Tokenizer] | None:
    """The folder's tokenizer, Marian's two tokenizers (source, target), or None if there is none.

    `config` is the model's; without it the folder's config.json is read.
    """
    folder = Path(folder)
    config = mapping(folder / "config.json") if config is None else config
    settings = {
        **mapping(folder / "special_tokens_map.json"),
        **_without_nulls(mapping(folder / "tokenizer_config.json")),
    }
    with guarded(f"{folder} holds no usable tokenizer", REMEDY):
        if not (folder / "tokenizer.json").is_file() and all((folder / name).is_file() for name in _MARIAN):
            source, target, size = marian_tokenizers(*(folder / name for name in _MARIAN))
            made = [
                Tokenizer(side, specials_of(side, settings, config, *_USUAL), size=size) for side in (source, target)
            ]
            return made[0], made[1]
        alone = (folder / "spiece.model").is_file() and not (folder / "tokenizer.json").is_file()
        if config.get("model_type") == "pegasus" and alone:
            raise DataError(
                f"{folder} has a tokenizer in a format that is not supported",
                got="Pegasus without tokenizer.json; its other files do not say where its ids begin",
                remedy="Save it with transformers: AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER).",
            )
        inner: tokenizers.Tokenizer | None
        if (path := folder / "tokenizer.json").is_file():
            inner, growth = _from_json(path)
        else:
            inner, growth = _from_vocabulary(folder, settings), 1
        if inner is None:
            return None
        specials = specials_of(inner, settings, config, *_USUAL)
        return Tokenizer(inner, specials, name=str(folder), growth=growth)


def _from_json(path: Path) -> tuple[tokenizers.Tokenizer, int]:
    """The tokenizer, and the factor by which its normalizer can lengthen a text."""
    content = text(path)
    growth = checked_growth(content, str(path))
    with guarded(f"{path} is not a usable tokenizer", REMEDY):
        return tokenizers.Tokenizer.from_str(content), growth


def _from_vocabulary(folder: Path, settings: Mapping[str, Any]) -> tokenizers.Tokenizer | None:
    """A tokenizer without a tokenizer.json, with the tokens that were added to it."""
    if (path := folder / "vocab.txt").is_file():
        made = vocabulary.bert(path, settings)
    elif (folder / "vocab.json").is_file() and (folder / "merges.txt").is_file():
        made = vocabulary.byte_level(folder / "vocab.json", folder / "merges.txt", settings)
    else:
        models = [folder / name for name in ("tokenizer.model", "spiece.model") if (folder / name).is_file()]
        if not models:
            return None
        made = spm_tokenizer(models[0])
    vocabulary.add(made, folder, settings)
    return made


def _without_nulls(settings: dict[str, Any]) -> dict[str, Any]:
    """Drop special tokens that are null, which would hide those of special_tokens_map.json."""
    return {key: value for key, value in settings.items() if value is not None}
