"""Dates, times, amounts and numbers in 17 languages: pairs to train a translation model, without a corpus.

A source begins with a tag for the target: a language (`>fr< `) or the normalised form (`>iso< `). The source's own
language is not given; the model has to recognise it.

    >fr< Sunday, 15 November 2026        dimanche 15 novembre 2026      translate
    >iso< zweihundertvierunddreißig      234                            normalise
    >pl< 1234.50 EUR                     1 234,50 €                     localise

The target is a function of the source. Therefore a date keeps its weekday and never gains one, a short date (15 nov.
2026) becomes a long one, numeric dates are those with dots, which always put the day first, and no two currencies share
a sign. English sources are American and British; English targets are CLDR's "en", which is American.

`split` keeps training, validation and test values apart, in whatever language they are written.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import NamedTuple

from regard.core.errors import DataError, UnknownName, UsageError
from regard.core.weights import replacing
from regard.data.datasets._forms import KINDS

__all__ = ["DIRECTIONS", "ISO", "SPLITS", "Example", "kinds", "languages", "pairs", "split", "write"]
ISO = "iso"
SPLITS = ("train", "validation", "test")
DIRECTIONS = ("normalise", "localise", "translate")
_LANGUAGES = ("en", "de", "fr", "es", "it", "pt", "nl", "sv", "pl", "cs", "fi", "tr", "ru", "uk", "ro", "hu", "id")
_SOURCE_LOCALES = {"en": ("en", "en_GB")}  # other languages use the same locale on both sides
_TAUGHT = 20  # numbers up to this one always belong to training


class Example(NamedTuple):
    """One pair. The normalised side has the language "iso"; `value` is the normalised form on whichever side."""

    source: str
    target: str
    kind: str
    source_language: str
    target_language: str
    value: str

    @property
    def direction(self) -> str:
        """One of DIRECTIONS."""
        if self.target_language == ISO:
            return "normalise"
        return "localise" if self.source_language == ISO else "translate"


def languages() -> tuple[str, ...]:
    """The available languages, by their CLDR names."""
    return _LANGUAGES


def kinds() -> tuple[str, ...]:
    """The available kinds of values."""
    return tuple(KINDS)


def split(value: str) -> str:
    """The only split in which a normalised value may occur: 90 % train, 5 % validation, 5 % test, by a hash.

    Numbers up to twenty are in training only: no model can guess a word it has not seen.
    """
    if value.isdecimal() and int(value) <= _TAUGHT:
        return "train"
    place = int.from_bytes(hashlib.blake2b(value.encode(), digest_size=8).digest(), "big") % 20
    return "test" if place == 0 else "validation" if place == 1 else "train"


def pairs(
    count: int,
    *,
    split: str,
    seed: int,
    languages: Sequence[str] | None = None,
    kinds: Sequence[str] | None = None,
    directions: Sequence[str] | None = None,
) -> Iterator[Example]:
    """`count` pairs of a split, equal for equal arguments; a larger count begins with the same pairs.

    With a single language there is nothing to translate, and the other directions share the pairs.
    """
    if count < 0:
        raise UsageError("the number of pairs is negative", got=count, expected="0 or more")
    _known("split", [split], SPLITS)
    spoken = _known("language", languages, _LANGUAGES)
    chosen = _known("kind", kinds, tuple(KINDS))
    ways = [way for way in _known("direction", directions, DIRECTIONS) if len(spoken) > 1 or way != "translate"]
    if not ways:
        raise UsageError("no second language to translate into", got=f"only {spoken[0]}", expected="two or more")
    return _examples(count, split, Random(f"{seed} {split}"), spoken, chosen, ways)


def _known(what: str, names: Sequence[str] | None, known: Sequence[str]) -> list[str]:
    """The given names without duplicates, or all names if none are given."""
    for name in names or ():
        if name not in known:
            raise UnknownName(what, name, known)
    if names is not None and not names:
        raise UsageError(f"no {what} to choose from", expected="one or more of " + ", ".join(known))
    return list(dict.fromkeys(known if names is None else names))


def _examples(
    count: int, part: str, rng: Random, spoken: list[str], chosen: list[str], ways: list[str]
) -> Iterator[Example]:
    shares = list(accumulate(KINDS[kind].weight for kind in chosen))
    for _ in range(count):
        kind = rng.choices(chosen, cum_weights=shares)[0]
        value = KINDS[kind].draw(rng)
        while split(value) != part:
            value = KINDS[kind].draw(rng)
        yield _example(kind, value, rng, *_route(rng, spoken, ways))


def _route(rng: Random, spoken: list[str], ways: list[str]) -> tuple[str, str]:
    """Draw the source and the target language."""
    way = ways[int(rng.random() * len(ways))]
    place = int(rng.random() * len(spoken))
    if way == "normalise":
        return spoken[place], ISO
    if way == "localise":
        return ISO, spoken[place]
    other = (place + 1 + int(rng.random() * (len(spoken) - 1))) % len(spoken)
    return spoken[place], spoken[other]


def _example(kind: str, value: str, rng: Random, source_language: str, target_language: str) -> Example:
    text, forms = KINDS[kind].text, KINDS[kind].forms
    form = next(iter(forms))
    source = target = value
    if source_language != ISO:
        ways = _ways(kind, source_language)
        locale, form = ways[int(rng.random() * len(ways))]
        source = text(value, locale, form)
    if target_language != ISO:
        target = text(value, target_language, forms[form])
    return Example(f">{target_language}< {source}", target, kind, source_language, target_language, value)


@cache
def _ways(kind: str, language: str) -> list[tuple[str, str]]:
    """The locales and forms of sources in a language."""
    return [(locale, form) for locale in _SOURCE_LOCALES.get(language, (language,)) for form in KINDS[kind].forms]


def write(
    folder: str | Path,
    *,
    train: int,
    validation: int,
    test: int,
    seed: int,
    languages: Sequence[str] | None = None,
    kinds: Sequence[str] | None = None,
    directions: Sequence[str] | None = None,
) -> None:
    """Write `train.tsv`, `validation.tsv` and `test.tsv` to the folder, one pair per line: source, tab, target.

    A file replaces an older one only when it is complete.
    """
    counts = dict(zip(SPLITS, (train, validation, test), strict=True))
    streams = {
        part: pairs(count, split=part, seed=seed, languages=languages, kinds=kinds, directions=directions)
        for part, count in counts.items()
    }
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        for part, stream in streams.items():
            with replacing(Path(folder) / f"{part}.tsv") as file:
                file.writelines(f"{example.source}\t{example.target}\n".encode() for example in stream)
    except OSError as error:
        raise DataError(f"{folder} was not written", got=error, remedy="Make room, or write elsewhere.") from error
