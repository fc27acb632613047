"""Rewrites translators trained here for Hugging Face folders: the same translations, with other weights and ids.

A post-norm Transformer becomes their Marian, a pre-norm one their Pegasus: no other models of theirs have these layers
and sinusoids and are read by CTranslate2's converter. Both have conventions that ours does not share:

both      sines before cosines, a bias on the logits, one vocabulary; padding also begins the target
Marian    CTranslate2 drops the last token, `<pad>`, and begins with a zero vector. So `<pad>` is added at the end and
          the embedding of our `<s>` is made zero (`models/_equivalents.py`); token 0 stays, but is not used.
Pegasus   CTranslate2 begins with the padding token, whatever it is. So the tokenizer names `<s>` as padding, which
          masks hide; all ids stay.

Two vocabularies become one (`data/text/exported.py`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from torch import Tensor

from regard.core import lookup, weights
from regard.core.config import Config
from regard.core.conversion import nearest_conversion
from regard.core.search import Search
from regard.data.text.exported import OneVocabulary, one_vocabulary, padded_by_start, with_last_padding
from regard.models import _equivalents as equivalents
from regard.models import make_model
from regard.models.transformer import TransformerConfig
from regard.store.stored_model import StoredModel


def in_their_form(stored: StoredModel) -> StoredModel:
    """The translator in a form that their formats can store. Other models, and converted ones, are unchanged."""
    source, target = stored.source_tokenizer, stored.target_tokenizer
    known = "decoder_start" in stored.extra.get("tokens", {})
    if not isinstance(stored.config, TransformerConfig) or known or source is None or target is None:
        return stored
    config = stored.config
    model = lookup.find("regard.models", stored.name)
    options = {**config.model_dump(), "halves": True, "output_bias": True}
    nearest_conversion(model, options).architecture(options)  # raises if the weights cannot be made equivalent
    start, vocabulary = target.bos, one_vocabulary(source, target)
    tensors: dict[str, Tensor] = {name: tensor.detach() for name, tensor in stored.model.state_dict().items()}
    if config.share == "all":
        del tensors["target_embedding.weight"]
    if config.order == "post":
        tensors = equivalents.zero_start(tensors, config, start)
        vocabulary = OneVocabulary(
            with_last_padding(vocabulary.tokenizer), [*vocabulary.source, 0], [*vocabulary.target, None]
        )
    else:
        vocabulary = replace(vocabulary, tokenizer=padded_by_start(vocabulary.tokenizer))
        if config.share == "target":  # their Pegasus shares all embeddings or none
            tensors["output.weight"] = tensors["target_embedding.weight"].clone()
            options["share"] = "none"
    tensors = equivalents.one_vocabulary(tensors, vocabulary.source, vocabulary.target)
    if not config.halves:
        tensors = equivalents.sines_first(tensors, config.d_model)
    size = len(vocabulary.source)
    return _rebuilt(stored, {**options, "source_vocab": size, "target_vocab": size}, tensors, vocabulary)


def _rebuilt(
    stored: StoredModel, options: dict[str, Any], tensors: dict[str, Tensor], vocabulary: OneVocabulary
) -> StoredModel:
    config = cast(Config, TransformerConfig.parse(options, "the model to convert"))
    model = make_model(stored.name, config, empty=True)
    weights.load_into(model, tensors)
    tokenizer = vocabulary.tokenizer.ending()
    tokens = {"eos": tokenizer.eos, "pad": tokenizer.pad, "decoder_start": tokenizer.pad}
    return replace(
        stored,
        config=config,
        model=model,
        source_tokenizer=tokenizer,
        target_tokenizer=tokenizer,
        extra={**stored.extra, "tokens": tokens},
    )


def tokenizer_settings(stored: StoredModel) -> dict[str, Any]:
    """tokenizer_config.json; with it, text that spells a special token is plain text there too."""
    assert stored.source_tokenizer is not None
    longest = stored.config.model_dump()["max_len"]
    return {**stored.source_tokenizer.described(), "split_special_tokens": True, "model_max_length": longest}


def translator_settings(stored: StoredModel) -> dict[str, Any]:
    """The longest translation and the suppressed tokens, for generation_config.json."""
    search, tokens = stored.search, stored.extra["tokens"]
    length = (
        {"max_new_tokens": search.max_length}
        if search.max_length is not None
        else {"max_length": stored.config.model_dump()["max_len"]}
    )
    never = sorted({tokens[name] for name in ("pad", "decoder_start") if name in tokens} | set(search.forbidden))
    return {**length, "bad_words_ids": [[token] for token in never]}


def unsaid_search(search: Search) -> list[str]:
    """The search settings that their format cannot store, one line each."""
    beam = search.beam > 1 and not search.sample
    lines = []
    if beam and search.length_form == "wu" and search.length_penalty:
        lines.append(
            f"length_penalty {search.length_penalty:g} divides by ((5 + n)/6)^α here and by n^α there, so beam searches"
            " may rank differently; search.length_form: mean is the same in both"
        )
    if beam and search.coverage_penalty:
        lines.append("coverage_penalty does not exist there and is left out")
    return lines
