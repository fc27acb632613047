"""Vocabularies as plain lists: BERT's pieces (Devlin et al. 2019), GPT-2's bytes and merges (Radford et al. 2019)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from regard.core.errors import DataError
from regard.data.text.formats._file import REMEDY, mapping, text, vocabulary
from regard.data.text.specials import BERT, NAMES, spelt

END_OF_TEXT = "<|endoftext|>"
_DIGITS = 10  # of an id, at most


def bert(path: Path, settings: Mapping[str, Any]) -> Tokenizer:
    """`vocab.txt`, one piece per line; `settings` are those of tokenizer_config.json."""
    lines = text(path).split("\n")
    # As the reference reads it: pieces contain no carriage return or space, and the last line end adds no piece.
    pieces = [line.rstrip("\r\n") for line in (lines[:-1] if lines[-1] == "" else lines)]
    vocab = {piece: id for id, piece in enumerate(pieces)}
    unk, cls, sep = (spelt(settings.get(f"{name}_token")) or f"[{name.upper()}]" for name in ("unk", "cls", "sep"))
    for name in (unk, cls, sep):
        if name not in vocab:
            raise DataError(f"{path} lacks the piece {name}", got=f"{len(vocab)} pieces", remedy=REMEDY)
    tokenizer = Tokenizer(models.WordPiece(vocab, unk_token=unk, max_input_chars_per_word=100))
    accents = settings.get("strip_accents")
    tokenizer.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=settings.get("tokenize_chinese_chars") is not False,
        strip_accents=accents if isinstance(accents, bool) else None,
        lowercase=settings.get("do_lower_case") is not False,
    )
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece("##", cleanup=True)
    tokenizer.post_processor = processors.BertProcessing((sep, vocab[sep]), (cls, vocab[cls]))
    own = [spelt(settings.get(f"{name}_token")) for name in NAMES]
    tokenizer.add_special_tokens([token for token in dict.fromkeys([*BERT, *own]) if token in vocab])
    return tokenizer


def byte_level(vocab_path: Path, merges_path: Path, settings: Mapping[str, Any]) -> Tokenizer:
    """`vocab.json` and `merges.txt`: byte-pair encoding over the bytes of the text."""
    vocab = vocabulary(vocab_path)
    tokenizer = Tokenizer(models.BPE(vocab, _merges(merges_path, vocab)))
    spaced = settings.get("add_prefix_space") is True
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=spaced)
    tokenizer.decoder = decoders.ByteLevel()
    own = [spelt(settings.get(f"{name}_token")) for name in NAMES]
    tokenizer.add_special_tokens([token for token in dict.fromkeys([END_OF_TEXT, *own]) if token in vocab])
    return tokenizer


def _merges(path: Path, vocab: Mapping[str, int]) -> list[tuple[str, str]]:
    merges = []
    for number, line in enumerate(text(path).split("\n"), 1):
        if not line.strip() or (number == 1 and line.startswith("#version")):
            continue
        pair = line.rstrip("\r").split(" ")
        if len(pair) != 2 or not {*pair, "".join(pair)} <= vocab.keys():
            raise DataError(f"line {number} of {path} is not a pair of tokens", got=repr(line[:80]), remedy=REMEDY)
        merges.append((pair[0], pair[1]))
    return merges


def add(tokenizer: Tokenizer, folder: Path, settings: Mapping[str, Any]) -> None:
    """The tokens that were added to a vocabulary later, with the ids that the folder gives them."""
    listed = settings.get("added_tokens_decoder")
    wanted: dict[int, AddedToken] = {}
    for id, entry in (listed if isinstance(listed, dict) else {}).items():
        content = spelt(entry)
        if content and str(id).isascii() and str(id).isdigit() and len(str(id)) <= _DIGITS:
            special = isinstance(entry, Mapping) and entry.get("special") is True
            wanted[int(id)] = AddedToken(content, special=special, normalized=False)
    for content, id in mapping(folder / "added_tokens.json").items():
        if type(id) is int and content:
            wanted.setdefault(id, AddedToken(content, special=False, normalized=False))
    for id, token in sorted(wanted.items()):
        (tokenizer.add_special_tokens if token.special else tokenizer.add_tokens)([token])
        if tokenizer.token_to_id(token.content) != id:
            raise DataError(
                f"{folder} gives the added token {token.content!r} an id that does not follow its vocabulary",
                got=f"id {id}",
                expected=tokenizer.token_to_id(token.content),
                remedy=REMEDY,
            )
