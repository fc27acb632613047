"""The `tokenizer.bin` of llama2.c: byte strings with scores. It is Llama's sentencepiece vocabulary in another format.

    int32 length of the longest string; then for each token: float32 score, int32 length, that many bytes

All little-endian. Tokens 0, 1, 2 are the unknown, beginning and end tokens. Tokens 3 to 258 are single bytes, written
`<0x0A>` or, in older files, as the character with that number. Spaces are spaces. A text gets a space before it. Its
characters (or their bytes, if there is no such token) are merged pair by pair, always the pair with the highest score.
"""

from __future__ import annotations

import math
import struct

from tokenizers import Tokenizer, decoders, models, normalizers

from regard.core.errors import DataError, UsageError
from regard.data.text._library import guarded
from regard.data.text.formats.sentencepiece import merges
from regard.data.text.specials import Specials
from regard.data.text.tokenizer import Tokenizer as Wrapped

_WHAT = "this is not a tokenizer.bin of llama2.c"
_REMEDY = "Give the tokenizer that the checkpoint was trained with, and its vocab_size."
_SPECIAL_TOKENS = ("<unk>", "<s>", "</s>")
_FIRST_BYTE, _FIRST_TEXT = 3, 259
_LONGEST = 512


def read_llama2c_tokenizer(data: bytes, vocab_size: int) -> Wrapped:
    """The tokenizer in these bytes; bytes after its last token are ignored."""
    if vocab_size < _FIRST_TEXT:
        raise UsageError("vocab_size is too small", got=vocab_size, expected=f"{_FIRST_TEXT} or more")
    scored = _tokens(data, vocab_size)
    texts = [*_SPECIAL_TOKENS, *(f"<0x{byte:02X}>" for byte in range(256)), *(text for text, _ in scored[_FIRST_TEXT:])]
    if len(set(texts)) != vocab_size:
        raise DataError(_WHAT, got="a duplicate token", remedy=_REMEDY)
    _check_bytes([text for text, _ in scored[_FIRST_BYTE:_FIRST_TEXT]])
    with guarded(_WHAT, _REMEDY):
        pairs = merges(dict(scored[_FIRST_TEXT:]))
        ids = {text: id for id, text in enumerate(texts)}
        inner = Tokenizer(models.BPE(ids, pairs, unk_token=_SPECIAL_TOKENS[0], byte_fallback=True))
        inner.normalizer = normalizers.Prepend(" ")
        inner.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
        inner.add_special_tokens(list(_SPECIAL_TOKENS))
        return Wrapped(inner, Specials(unk=0, bos=1, eos=2))


def _tokens(data: bytes, count: int) -> list[tuple[str, float]]:
    tokens, at = [], 4
    for id in range(count):
        if at + 8 > len(data):
            raise DataError(_WHAT, got=f"an end after {id} tokens", expected=f"{count} tokens", remedy=_REMEDY)
        score, length = struct.unpack_from("<fi", data, at)
        text, at = data[at + 8 : at + 8 + max(length, 0)], at + 8 + max(length, 0)
        if not 0 < length <= _LONGEST or len(text) < length or not math.isfinite(score):
            got = f"token {id} of {length} bytes with score {score:g}"
            raise DataError(_WHAT, got=got, expected=f"1 to {_LONGEST} bytes and a finite score", remedy=_REMEDY)
        tokens.append((text.decode("utf-8", errors="replace"), score))
    return tokens


def _check_bytes(texts: list[str]) -> None:
    for byte, text in enumerate(texts):
        # A single byte above 127 is not UTF-8.
        if text not in (f"<0x{byte:02X}>", chr(byte), "\ufffd"):
            got = f"token {_FIRST_BYTE + byte} is {text[:20]!r}"
            raise DataError(_WHAT, got=got, expected=f"byte {byte}", remedy=_REMEDY)
