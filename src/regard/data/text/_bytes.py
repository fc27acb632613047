"""The letters that stand for bytes in a byte-level vocabulary (Radford et al. 2019, GPT-2).

Printable bytes of Latin-1 stand for themselves; the others, in order, for the characters from U+0100 on.
"""

from __future__ import annotations

_PLAIN = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
_OTHERS = [byte for byte in range(256) if byte not in _PLAIN]
_BYTES = {chr(byte): byte for byte in _PLAIN} | {chr(0x100 + n): byte for n, byte in enumerate(_OTHERS)}


def text(piece: str) -> str:
    """What a piece spells; bytes that make no whole character are written \\xe2; special tokens stay as they are."""
    if not all(letter in _BYTES for letter in piece):
        return piece
    return bytes(_BYTES[letter] for letter in piece).decode("utf-8", errors="backslashreplace")
