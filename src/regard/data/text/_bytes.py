"""The characters that represent bytes in a byte-level vocabulary (Radford et al. 2019, GPT-2).

Printable bytes of Latin-1 represent themselves; the others, in order, are the characters from U+0100 on.
"""

from __future__ import annotations

_PLAIN = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
_OTHERS = [byte for byte in range(256) if byte not in _PLAIN]
_BYTES = {chr(byte): byte for byte in _PLAIN} | {chr(0x100 + n): byte for n, byte in enumerate(_OTHERS)}


def text(piece: str) -> str:
    """The text of a token; bytes that are not a whole character are written as \\xe2; special tokens are unchanged."""
    if not all(letter in _BYTES for letter in piece):
        return piece
    return bytes(_BYTES[letter] for letter in piece).decode("utf-8", errors="backslashreplace")
