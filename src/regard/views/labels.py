"""Readable tokens and numbers: spaces, line ends and invisible characters are shown as signs."""

from __future__ import annotations

import math
import unicodedata

_SIGNS = {" ": "␣", "\n": "⏎", "\r": "␍", "\t": "⇥", "\u00a0": "⍽"}
_UNSEEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def visible(label: str) -> str:
    """The label with spaces at its ends, tabs, line ends and control characters made visible.

    Joiners inside a word (as in Persian or in composed emoji) stay; a label of joiners alone is shown by its code.
    """
    if not label:
        return "∅"
    body = label.strip(" \u00a0")
    left = len(label) - len(label.lstrip(" \u00a0"))
    right = len(label) - left - len(body)
    ends = label[:left], label[len(label) - right :] if right else ""
    before, after = ("".join(_SIGNS[sign] for sign in end) for end in ends)
    if body and all(unicodedata.category(sign) == "Cf" for sign in body):
        return before + " ".join(f"U+{ord(sign):04X}" for sign in body) + after
    return before + "".join(_sign(sign) for sign in body) + after


def _sign(sign: str) -> str:
    if sign in _SIGNS and sign != " ":
        return _SIGNS[sign]
    if sign < " ":
        return chr(0x2400 + ord(sign))
    kind = unicodedata.category(sign)
    # Format characters that join letters and emoji stay; those that change the text's direction are removed.
    return "\ufffd" if kind in _UNSEEN and (kind != "Cf" or _turns(sign)) else sign


def _turns(sign: str) -> bool:
    return "\u202a" <= sign <= "\u202e" or "\u2066" <= sign <= "\u2069"


def visible_line(text: str) -> str:
    """A line of text; spaces at its ends are not shown as signs."""
    return visible(text.strip()) if text.strip() else ""


def format_number(value: float | int | None, digits: int = 5) -> str:
    """The number with this many significant digits, and all digits before the point; a dash if it is not a number."""
    if value is None or not math.isfinite(value):
        return "–"
    if isinstance(value, int):
        return str(value).replace("-", "−")
    whole = 10**digits <= abs(value) < 10**7
    return (f"{value:.0f}" if whole else f"{value:.{digits}g}").replace("-", "−")
