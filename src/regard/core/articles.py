"""The indefinite article of a model's name, for messages: a bow, an elmo, an rnn."""

from __future__ import annotations

_READ_AS_VOWELS = "fhlmnrx"  # as letters: ef, aitch, el, …


def with_article(name: str) -> str:
    """ "a gpt2", "an encoder"; a name that begins with two unlike consonants is read letter by letter: "an rnn"."""
    first, second = name[:1].lower(), name[1:2].lower()
    spelt = first in _READ_AS_VOWELS and second.isalpha() and second not in f"aeiouy{first}"
    return f"{'an' if first in 'aeiou' or spelt else 'a'} {name}"
