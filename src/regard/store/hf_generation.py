"""Converts the generation settings of a Hugging Face folder to `Search` options, and back.

Their lengths also count what is read: the prompt of a language model, or the token that begins a translation. Only
`min_new_tokens` and `max_new_tokens` count as ours do. Settings without a counterpart here are reported, so that nobody
expects their effect.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from regard.core.errors import ConfigError
from regard.core.search import Search

_FILE = "generation_config.json"
_NAMES = {
    "num_beams": "beam",
    "length_penalty": "length_penalty",
    "do_sample": "sample",
    "no_repeat_ngram_size": "no_repeat_ngram",
    "repetition_penalty": "repetition_penalty",
    "min_new_tokens": "min_length",
    "max_new_tokens": "max_length",
}
_SAMPLING = ("temperature", "top_k", "top_p", "min_p")

# Unsupported settings, with the value that has no effect. Not listed: renormalize_logits, because suppressed tokens
# have almost no probability in models trained without them, and forced_eos_token_id, which only ends a cut text.
_ALWAYS: dict[str, Any] = {
    "encoder_no_repeat_ngram_size": 0,
    "encoder_repetition_penalty": 1,
    "forced_bos_token_id": None,
    "forced_decoder_ids": None,
    "exponential_decay_length_penalty": None,
    "suppress_tokens": None,
    "begin_suppress_tokens": None,
    "sequence_bias": None,
    "guidance_scale": 1,
    "watermarking_config": None,
    "constraints": None,
    "force_words_ids": None,
    "penalty_alpha": 0,
    "dola_layers": None,
    "stop_strings": None,
    "max_time": None,
    "num_return_sequences": 1,
}
_OF_BEAMS: dict[str, Any] = {"early_stopping": False, "num_beam_groups": 1, "diversity_penalty": 0}
_OF_SAMPLING: dict[str, Any] = {"typical_p": 1, "epsilon_cutoff": 0, "eta_cutoff": 0, "top_h": None}


def search_of(
    config: Mapping[str, Any], tokens: Mapping[str, Any], *, translates: bool, max_len: int | None
) -> tuple[Search, list[str]]:
    """The folder's settings, and those that are set but not supported, as phrases.

    `tokens` are its special tokens, `max_len` is the model's number of positions. Their length penalty divides by a
    power of the length.
    """
    names = {**_NAMES, **({name: name for name in _SAMPLING} if config.get("do_sample") else {})}
    given = {ours: config[theirs] for theirs, ours in names.items() if config.get(theirs) is not None}
    unsupported = _unsupported(config)
    shortest, longest = _length(config, "min_length"), _length(config, "max_length")
    if translates:  # their lengths count the token that begins the target
        if shortest > 1:
            given["min_length"] = max(_length(config, "min_new_tokens"), shortest - 1)
        if longest > 1 and "max_length" not in given and (max_len is None or longest < max_len):
            given["max_length"] = longest - 1
    else:
        unsupported += [f"min_length {shortest}, which counts the prompt"] if shortest else []
        if longest and "max_length" not in given and max_len is not None and longest < max_len:
            unsupported.append(f"max_length {longest}, which counts the prompt")
    never = {tokens.get(name) for name in ("pad", "decoder_start", "bos")} if translates else set()
    ends = tokens.get("eos")
    forbidden, several = _bad_words(config, {*never, *(ends if isinstance(ends, list) else [ends])})
    if several:
        unsupported.append(f"bad_words_ids of several tokens ({several} of them)")
    if forbidden:
        given["forbidden"] = forbidden
    return Search.parse({"beam": 1, "length_form": "mean", **given}, _FILE), unsupported


def constraints_of(search: Search) -> dict[str, Any]:
    """What a search forbids or penalises, with their names; settings without effect are left out."""
    theirs: dict[str, Any] = {}
    if search.no_repeat_ngram:
        theirs["no_repeat_ngram_size"] = search.no_repeat_ngram
    if search.repetition_penalty != 1.0:
        theirs["repetition_penalty"] = search.repetition_penalty
    if search.min_length:
        theirs["min_new_tokens"] = search.min_length
    if search.max_length is not None:
        theirs["max_new_tokens"] = search.max_length
    if search.forbidden:
        theirs["bad_words_ids"] = [[token] for token in search.forbidden]
    return theirs


def _unsupported(config: Mapping[str, Any]) -> list[str]:
    beams = _OF_BEAMS if (config.get("num_beams") or 1) != 1 else {}
    sampling = _OF_SAMPLING if config.get("do_sample") else {}
    neutral = {**_ALWAYS, **beams, **sampling}
    values = {name: config[name] for name in neutral if config.get(name) not in (None, [], neutral[name])}
    if values.get("early_stopping") == "never":  # our beam search ends in this way
        del values["early_stopping"]
    return [f"{name} {repr(value)[:40]}" for name, value in values.items()]


def _length(config: Mapping[str, Any], name: str) -> int:
    """A number of tokens; 0 if it is not set."""
    value = config.get(name)
    if value is None:
        return 0
    if type(value) is not int or value < 0:
        raise ConfigError(f"{_FILE}: {name} is not a number of tokens", got=repr(value)[:80], expected="0 or more")
    return value


def _bad_words(config: Mapping[str, Any], never: Collection[Any]) -> tuple[list[int], int]:
    """The single forbidden tokens, besides those that are always suppressed, and the number of longer bad words."""
    words = config.get("bad_words_ids")
    if words is None:
        return [], 0
    if not isinstance(words, list) or not all(
        isinstance(word, list) and word and all(type(token) is int for token in word) for word in words
    ):
        raise ConfigError(f"{_FILE}: bad_words_ids is not a list of lists of tokens", got=repr(words)[:80])
    single = {word[0] for word in words if len(word) == 1}
    return sorted(single - set(never)), sum(len(word) > 1 for word in words)
