"""Makes text from models and files safe to print in a terminal.

A label or a generated text may hold control characters, which a terminal obeys: they can clear the screen, set the
window's title, or hide text. In a terminal they are printed as symbols (␛ for ESC). A file or a pipe gets the text
unchanged, since a program reads it.
"""

from __future__ import annotations

import json
import re
import sys
from typing import Any

# C0 except tab and line feed, DEL and C1, characters that change the writing direction, and other line ends.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_DELETE = "\N{SYMBOL FOR DELETE}"


def shown(text: str) -> str:
    """The text in a form that is safe for standard output; line ends and tabs stay."""
    return _CONTROLS.sub(_sign, text) if sys.stdout.isatty() else text


def shown_json(facts: Any, *, allow_nan: bool = True) -> str:
    """The facts as JSON; in a terminal, control characters are escaped."""
    text = json.dumps(facts, ensure_ascii=False, allow_nan=allow_nan)
    return _CONTROLS.sub(lambda match: f"\\u{ord(match[0]):04x}", text) if sys.stdout.isatty() else text


def one_line(text: object) -> str:
    """A message in one line, safe for any output: it may contain file names and their contents."""
    return _CONTROLS.sub(_sign, str(text).replace("\n", "␤").replace("\t", " "))


def _sign(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return _DELETE if code == 0x7F else "\N{REPLACEMENT CHARACTER}"
