"""A sentencepiece model as a tokenizer of the `tokenizers` library (Kudo 2018; Kudo & Richardson 2018).

Text is mapped by the model's character table, spaces are trimmed and collapsed if the model says so, one is put before
the text, and all become "▁". A unigram model takes the most likely split. A BPE model merges the neighbours that form
the piece with the highest score, until no merge is left.

Marian has a model for each side and one vocabulary, a JSON mapping, for both. A piece of the model that is not in the
vocabulary is unknown: such pieces get ids after the vocabulary's end. A token of the vocabulary that is not in the
model must not match text, so it is spelt with a space before it, which normalised text does not contain.

Where we differ: sentencepiece takes the longest match in its character table, the library matches whole graphemes. They
disagree on some letters with several combining marks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from regard.core.errors import DataError
from regard.data.text._limits import check_trie
from regard.data.text.formats import spm
from regard.data.text.formats._file import REMEDY, vocabulary
from regard.data.text.formats.spm import Piece, SpmModel, read_spm

# Gemma, the largest vocabulary of this kind in use, needs about a tenth of that.
_MOST_MERGED = 100_000_000
_SPACE = "▁"
_HIDDEN = " "
_MARIAN_SPECIAL = ("<unk>", "</s>", "<pad>")
_LANGUAGE = re.compile(r">>[^<>\s]+<<")


def spm_tokenizer(path: Path) -> Tokenizer:
    """`tokenizer.model` or `spiece.model`: the ids are the order of the pieces."""
    model = read_spm(path)
    special = [piece.text for piece in model.pieces if piece.type in (spm.UNKNOWN, spm.CONTROL)]
    return _tokenizer(model, [piece.text for piece in model.pieces], special, model.pieces[model.unk_id].text)


def marian_tokenizers(source: Path, target: Path, vocab: Path) -> tuple[Tokenizer, Tokenizer, int]:
    """The tokenizers of both sides, and the number of ids; larger ids are unknown."""
    ids = vocabulary(vocab)
    if sorted(ids.values()) != list(range(len(ids))) or "<unk>" not in ids:
        raise DataError(f"{vocab} is not a Marian vocabulary", expected="<unk>, and ids 0, 1, 2, …", remedy=REMEDY)
    texts = sorted(ids, key=ids.__getitem__)
    source_tokenizer, target_tokenizer = (_side(read_spm(path), texts, ids) for path in (source, target))
    return source_tokenizer, target_tokenizer, len(ids)


def _side(model: SpmModel, texts: Sequence[str], ids: dict[str, int]) -> Tokenizer:
    spare = [text for text in _pieces(model) if text not in ids]
    special = [text for text in _MARIAN_SPECIAL if text in ids]
    tokenizer = _tokenizer(model, [*texts, *spare], special, "<unk>")
    codes = [text for text in texts if _LANGUAGE.fullmatch(text)]
    # Not special: the tag for the target language is written in the text itself.
    tokenizer.add_tokens([AddedToken(code, normalized=False) for code in codes])
    return tokenizer


def _tokenizer(model: SpmModel, texts: Sequence[str], special: Sequence[str], unk: str) -> Tokenizer:
    """`texts` are all tokens by id; `special` are the special ones among them."""
    live = _pieces(model)
    shown = {*live, *special, *(text for text in texts if _LANGUAGE.fullmatch(text))}
    spelt = [text if text in shown else _HIDDEN + text for text in texts]
    bytes_ = [piece.text for piece in model.pieces if piece.type == spm.BYTE]
    fallback = model.byte_fallback and len(bytes_) == 256 and {*bytes_} <= {*spelt}
    kind = _bpe if model.model_type == spm.BPE else _unigram
    if kind is _unigram:
        check_trie(spelt, "the sentencepiece model")
    tokenizer = Tokenizer(kind(live, spelt, unk, fallback))
    tokenizer.normalizer = normalizers.Sequence(_normalisers(model))
    apart = [_first_letters([*special, *bytes_])]
    if model.model_type == spm.BPE:
        apart += [re.escape(text) for text, piece in live.items() if piece.type == spm.USER_DEFINED]
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("|".join(apart)), "isolated")
    tokenizer.decoder = decoders.Sequence(_decoders(model, fallback))
    tokenizer.add_special_tokens(list(special))
    return tokenizer


def _pieces(model: SpmModel) -> dict[str, Piece]:
    """The pieces that text may become, or fall back to."""
    return {p.text: p for p in model.pieces if p.type in (spm.NORMAL, spm.USER_DEFINED, spm.BYTE)}


def _unigram(live: dict[str, Piece], texts: Sequence[str], unk: str, fallback: bool) -> models.Unigram:
    scores = [piece.score for piece in live.values() if piece.type == spm.NORMAL] or [0.0]
    low, high = min(scores), max(0.0, *scores)

    def score(text: str) -> float:
        piece = live.get(text)
        if piece is not None and piece.type == spm.USER_DEFINED:
            return len(text) * high - 0.1  # sentencepiece's own bonus, so that it wins over its parts
        # A piece that text cannot become must not lower the lowest score, from which the unknown score is derived.
        return piece.score if piece is not None and piece.type == spm.NORMAL else low

    return models.Unigram([(text, score(text)) for text in texts], texts.index(unk), byte_fallback=fallback)


def _bpe(live: dict[str, Piece], texts: Sequence[str], unk: str, fallback: bool) -> models.BPE:
    ids = {text: id for id, text in enumerate(texts)}
    normal = {text: piece.score for text, piece in live.items() if piece.type == spm.NORMAL}
    # User-defined symbols have no merges, but pre-tokenization makes them whole words, which are matched.
    whole = any(piece.type == spm.USER_DEFINED for piece in live.values())
    return models.BPE(ids, merges(normal), unk_token=unk, fuse_unk=True, byte_fallback=fallback, ignore_merges=whole)


def merges(scores: dict[str, float]) -> list[tuple[str, str]]:
    """All pairs of pieces that form a third, by falling score of the third."""
    order = sorted(scores, key=lambda text: -scores[text])
    same = {text: text for text in scores}  # one string object per piece, however many merges use it
    made: list[tuple[str, str]] = []
    characters = 0
    for text in order:
        before = len(made)
        for cut in range(1, len(text)):
            left, right = same.get(text[:cut]), same.get(text[cut:])
            if left is not None and right is not None:
                made.append((left, right))
        characters += (len(made) - before) * len(text)
        if characters > _MOST_MERGED:
            raise DataError(
                "the sentencepiece model has too many merges",
                got=f"{len(made):,} merges",
                expected=f"at most {_MOST_MERGED:,} characters in all merges",
                remedy=REMEDY,
            )
    return made


def _normalisers(model: SpmModel) -> list[normalizers.Normalizer]:
    steps: list[Any] = [normalizers.Precompiled(model.charsmap)] if model.charsmap else []
    if model.remove_extra_whitespaces:
        steps += [normalizers.Replace(Regex("^ +| +$"), ""), normalizers.Replace(Regex(" {2,}"), " ")]
    if model.add_dummy_prefix:
        steps.append(normalizers.Prepend(" "))
    steps.append(normalizers.Replace(" ", _SPACE))
    if model.remove_extra_whitespaces:  # a "▁" in the text itself is trimmed at its end too
        steps.append(normalizers.Replace(Regex(_SPACE + "+$"), ""))
    return steps


def _decoders(model: SpmModel, fallback: bool) -> list[decoders.Decoder]:
    steps: list[Any] = [
        decoders.Replace(_SPACE, " "),
        *([decoders.ByteFallback()] if fallback else []),
        decoders.Fuse(),
    ]
    return [*steps, decoders.Strip(" ", 1, 0)] if model.add_dummy_prefix else steps


def _first_letters(special: Iterable[str]) -> str:
    """Split off the first character of special tokens that text spells, so that text never becomes a special token."""
    patterns = [f"{re.escape(token[0])}(?={re.escape(token[1:])})" for token in special if len(token) > 1]
    return "|".join(patterns) or r"(?!)"
