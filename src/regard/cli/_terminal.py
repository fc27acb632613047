"""Text from models and files on its way to a terminal.

A label or a generated text may hold control characters; a terminal obeys them: it clears the screen, sets the window's
title, shows other text than there is. To a terminal they are printed as signs (␛ for ESC). To a file or a pipe the text
goes as it is, since a program reads it.
"""

from __future__ import annotations

import json
import re
import sys
from typing import Any

# C0 without tab and line feed, DEL and C1, what turns the direction of writing, and other line ends.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_DELETE = "\N{SYMBOL FOR DELETE}"


def shown(text: str) -> str:
    """The text as it may be printed to where standard output leads; line ends and tabs stay."""
    return _CONTROLS.sub(_sign, text) if sys.stdout.isatty() else text


def shown_json(facts: Any, *, allow_nan: bool = True) -> str:
    """JSON of the facts, in a terminal with escapes for what it would obey."""
    text = json.dumps(facts, ensure_ascii=False, allow_nan=allow_nan)
    return _CONTROLS.sub(lambda match: f"\\u{ord(match[0]):04x}", text) if sys.stdout.isatty() else text


def one_line(text: object) -> str:
    """A message in one line, wherever it goes: names of files and values in them are part of it."""
    return _CONTROLS.sub(_sign, str(text).replace("\n", "␤").replace("\t", " "))


def _sign(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return _DELETE if code == 0x7F else "\N{REPLACEMENT CHARACTER}"
