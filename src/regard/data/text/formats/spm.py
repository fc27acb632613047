"""Reads the file of a sentencepiece model (Kudo & Richardson 2018): pieces with scores, and text normalisation.

It is a protocol buffer. Only what is needed is read, directly in the wire format: a message is a sequence of fields,
each a number `field << 3 | kind` and a value. Kind 0 is a number with 7 bits per byte, 1 is eight bytes, 2 is a length
and that many bytes, 5 is four bytes. Unknown fields are skipped.

    ModelProto       1 piece (repeated)   2 trainer   3 normalizer
    SentencePiece    1 text   2 score   3 type
    TrainerSpec      3 model type (1 unigram, 2 BPE)   24 space at the end of words   35 byte fallback
    NormalizerSpec   2 table of characters   3 space before the text   4 one space between words   5 spaces become "▁"
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from regard.core.errors import DataError
from regard.data.text._limits import longest_entry
from regard.data.text.formats._file import REMEDY, read_bytes

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
UNIGRAM, BPE = 1, 2
_MOST_PIECES = 1_000_000
# Far more than trainers use (16); the number of ways to split a piece grows with its length.
_LONGEST = 512
# The longest of Unicode's normal forms has 33 bytes.
_LONGEST_ENTRY = 128


class _Damage(Exception):
    """A problem with the bytes; becomes a DataError that names the file."""


@dataclass(frozen=True)
class Piece:
    text: str
    score: float
    type: int = NORMAL


@dataclass(frozen=True)
class SpmModel:
    """The contents of a sentencepiece model's file, as far as encoding and decoding need them."""

    pieces: tuple[Piece, ...]
    model_type: int = UNIGRAM
    byte_fallback: bool = False
    charsmap: bytes = b""
    add_dummy_prefix: bool = True
    remove_extra_whitespaces: bool = True

    @property
    def unk_id(self) -> int:
        return next(id for id, piece in enumerate(self.pieces) if piece.type == UNKNOWN)


def read_spm(path: Path) -> SpmModel:
    """Read the model in a file."""
    data = read_bytes(path)
    try:
        return _model(data)
    except _Damage as error:
        raise DataError(f"{path} is not a usable sentencepiece model", got=error, remedy=REMEDY) from error


def _model(data: bytes) -> SpmModel:
    pieces: list[Piece] = []
    trainer: dict[int, int | bytes] = {}
    normalizer: dict[int, int | bytes] = {}
    for field, value in _fields(data):
        if field == 1:
            pieces.append(_piece(_block(value)))
        elif field == 2:
            trainer.update(_fields(_block(value)))
        elif field == 3:
            normalizer.update(_fields(_block(value)))
        if len(pieces) > _MOST_PIECES:
            raise _Damage(f"more than {_MOST_PIECES} pieces")
    _check(pieces, trainer, normalizer)
    return SpmModel(
        pieces=tuple(pieces),
        model_type=_flag(trainer, 3, UNIGRAM),
        byte_fallback=bool(_flag(trainer, 35, 0)),
        charsmap=_block(normalizer.get(2, b"")),
        add_dummy_prefix=bool(_flag(normalizer, 3, 1)),
        remove_extra_whitespaces=bool(_flag(normalizer, 4, 1)),
    )


def _check(pieces: list[Piece], trainer: dict[int, int | bytes], normalizer: dict[int, int | bytes]) -> None:
    if sum(piece.type == UNKNOWN for piece in pieces) != 1:
        raise _Damage(f"{len(pieces)} pieces and no unknown piece")
    if len({piece.text for piece in pieces}) != len(pieces):
        raise _Damage("a duplicate piece")
    if _flag(trainer, 3, UNIGRAM) not in (UNIGRAM, BPE):
        raise _Damage("a model of words or characters, expected unigram or BPE")
    if _flag(trainer, 24, 0) or not _flag(normalizer, 5, 1):
        raise _Damage("spaces that are not written as '▁' before words")
    if (size := longest_entry(_block(normalizer.get(2, b"")))) > _LONGEST_ENTRY:
        raise _Damage(f"a character that becomes {size} bytes of text")


def _piece(data: bytes) -> Piece:
    fields = dict(_fields(data))
    try:
        text = _block(fields.get(1, b"")).decode("utf-8")
    except UnicodeDecodeError:
        raise _Damage("a piece that is not UTF-8") from None
    four = _block(fields.get(2, b"\0\0\0\0"))
    if not 0 < len(text) <= _LONGEST or len(four) != 4:
        raise _Damage("a piece without text or score, or far too long")
    score = struct.unpack("<f", four)[0]
    if not math.isfinite(score):
        raise _Damage("a score that is not finite")
    return Piece(text, score, _flag(fields, 3, NORMAL))


def _block(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise _Damage("a number where bytes are expected")
    return value


def _flag(fields: dict[int, int | bytes], field: int, default: int) -> int:
    value = fields.get(field, default)
    if not isinstance(value, int):
        raise _Damage("bytes where a number is expected")
    return value


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(data):
        key, at = _number(data, at)
        field, kind = key >> 3, key & 7
        value: int | bytes
        if kind == 0:
            value, at = _number(data, at)
        else:
            size = {1: 8, 5: 4}.get(kind)
            if kind == 2:
                size, at = _number(data, at)
            if size is None:
                raise _Damage(f"a field of kind {kind}")
            if size > len(data) - at:
                raise _Damage(f"{size} bytes expected where {len(data) - at} are left")
            value, at = data[at : at + size], at + size
        yield field, value


def _number(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for place in range(10):
        if at + place >= len(data):
            raise _Damage("an end inside a number")
        byte = data[at + place]
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return value, at + place + 1
    raise _Damage("a number of more than 10 bytes")
