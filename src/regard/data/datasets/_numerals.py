"""Numbers below ten thousand in words: num2words, mended where its spelling is not the language's own.

Each mend is a pattern and what takes its place, applied in order. Where there is none, num2words stands as it is.
Danish is left out of the languages: num2words misspells it in too many ways.
"""

from __future__ import annotations

import re
from functools import cache

from num2words import num2words  # type: ignore[import-untyped]

# CLDR's plain "pt" is Brazilian, that of num2words European: sixteen is dezesseis in one, dezasseis in the other.
_NAMES = {"pt": "pt_BR"}
_TURKISH = "bir|iki|üç|dört|beş|altı|yedi|sekiz|dokuz|on|yirmi|otuz|kırk|elli|altmış|yetmiş|seksen|doksan|yüz|bin"
_MENDS = {
    "cs": [(r"(?<=\w)(?<!\bde)(stě|sta|set)\b", r" \1")],  # dvě stě, apart; "deset" is ten
    "nl": [("duizend(?=.)", "duizend "), (r"(?<=\w)één", "een")],  # a space after duizend; accents on the word alone
    "pt": [(",", "")],
    "sv": [("etttusen", "ettusen")],  # never three of the same consonant
    "tr": [(f"({_TURKISH})(?=.)", r"\1 ")],  # joined on cheques only
}


@cache
def words(number: int, language: str) -> str:
    """The number as the language writes it out."""
    text = str(num2words(number, lang=_NAMES.get(language, language)))
    for pattern, repair in _MENDS.get(language, ()):
        text = re.sub(pattern, repair, text)
    return text
