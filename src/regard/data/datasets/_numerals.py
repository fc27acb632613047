"""Numbers below ten thousand in words: num2words, with corrections where it misspells a language.

Each correction is a pattern and its replacement, applied in order. Other languages use num2words unchanged.
Danish is not offered: num2words misspells it in too many ways.
"""

from __future__ import annotations

import re
from functools import cache

from num2words import num2words  # type: ignore[import-untyped]

# CLDR's plain "pt" is Brazilian, num2words' is European: sixteen is "dezesseis" in Brazil, "dezasseis" in Portugal.
_NAMES = {"pt": "pt_BR"}
_TURKISH = "bir|iki|üç|dört|beş|altı|yedi|sekiz|dokuz|on|yirmi|otuz|kırk|elli|altmış|yetmiş|seksen|doksan|yüz|bin"
_MENDS = {
    "cs": [(r"(?<=\w)(?<!\bde)(stě|sta|set)\b", r" \1")],  # "dvě stě" is two words; "deset" (ten) is one
    "nl": [("duizend(?=.)", "duizend "), (r"(?<=\w)één", "een")],  # space after duizend; accents if it stands alone
    "pt": [(",", "")],
    "sv": [("etttusen", "ettusen")],  # never three of the same consonant
    "tr": [(f"({_TURKISH})(?=.)", r"\1 ")],  # joined on cheques only
}


@cache
def words(number: int, language: str) -> str:
    """The number written out in the language."""
    text = str(num2words(number, lang=_NAMES.get(language, language)))
    for pattern, repair in _MENDS.get(language, ()):
        text = re.sub(pattern, repair, text)
    return text
