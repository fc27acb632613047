"""Correlation of attention and of effective attention with the attribution, in the GPT-2 that a recipe trained."""

from __future__ import annotations

from typing import Any

from regard.core.errors import DataError
from regard.core.lines import read_lines
from regard.core.paths import expand_path

MODEL = "wikitext2_gpt2"
_TEXT = "$REGARD_DATA/wikitext2/valid.raw.gz"
_PASSAGES, _TOKENS = 3, 120


def passages(model: Any) -> list[str]:
    """Beginnings of the first long paragraphs, as many words as 120 tokens allow."""
    chosen = []
    for line in read_lines(expand_path(_TEXT)):
        words = line.split()
        if len(words) < _TOKENS:
            continue
        while len(model.tokenizer.encode_batch([" ".join(words)])[0]) > _TOKENS:
            words.pop()
        chosen.append(" ".join(words))
        if len(chosen) == _PASSAGES:
            return chosen
    raise DataError(f"{_TEXT} has too few long paragraphs", got=len(chosen), expected=_PASSAGES)
