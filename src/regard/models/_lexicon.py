"""Lists of words for the lexicon features of `bow`: positive and negative words, "no", pronouns, "!"."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.core.errors import DataError
from regard.core.lines import read_lines
from regard.core.paths import expand_path

FILES = ("positive.txt", "negative.txt")
NAMES = ("positive", "negative", "no", "pronouns", "exclamation", "ln words")
"""The six features, in order."""
PRONOUNS = frozenset(
    ["i", "me", "my", "mine", "myself", "we", "us", "our", "ours", "ourselves",
     "you", "your", "yours", "yourself", "yourselves"]
)  # fmt: skip


def read_lexicon(folder: str) -> list[frozenset[str]]:
    """The positive and the negative words of a folder, in lower case, from positive.txt and negative.txt (one word per
    line)."""
    place = expand_path(folder)
    if missing := [name for name in FILES if not (place / name).is_file()]:
        raise DataError(
            f"{place} is not a lexicon",
            got=f"no {missing[0]}" if place.is_dir() else "no such folder",
            expected=f"a folder with {' and '.join(FILES)}, one word a line",
            remedy="Set model.options.lexicon to it.",
        )
    return [frozenset(word for line in read_lines(place / name) if (word := line.strip().lower())) for name in FILES]


def hits(words: Sequence[str], lexicon: Sequence[frozenset[str]]) -> Tensor:
    """Which words are positive, negative, "no", a pronoun of the first or second person, "!" [V,5]."""
    lists = [*lexicon, frozenset({"no"}), PRONOUNS, frozenset({"!"})]
    return torch.tensor([[float(word.lower() in known) for known in lists] for word in words])
