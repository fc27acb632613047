"""Made-up pairs are true, say one thing each, and keep what is tested out of what is trained on."""

from __future__ import annotations

import datetime
from collections import Counter
from decimal import Decimal
from pathlib import Path

import pytest
from babel.dates import format_date, format_time
from babel.numbers import format_currency
from num2words import num2words

from regard.core.errors import DataError, UnknownName, UsageError
from regard.data.datasets import expressions
from regard.data.datasets._forms import KINDS, plain
from regard.data.datasets._numerals import words
from regard.data.datasets.expressions import DIRECTIONS, ISO, SPLITS, Example, pairs, split
from regard.data.parallel import ParallelText

LANGUAGES = expressions.languages()
LOCALES = (*LANGUAGES, "en_GB")
NUMBERS = (*range(31), 71, 80, 99, 100, 101, 200, 999, 1000, 1001, 1100, 1234, 2021, 8888, 9999)
KNOWN_SPLITS = {"2026-11-10": "validation", "15:07": "train", "30": "test", "1234.50 EUR": "train"}


@pytest.fixture(scope="module")
def many() -> list[Example]:
    return [example for part in SPLITS for example in pairs(60_000 if part == "train" else 3_000, split=part, seed=7)]


def text(kind: str, value: str, locale: str, form: str = "") -> str:
    return KINDS[kind].text(value, locale, form)


@pytest.mark.parametrize(
    ("kind", "value", "locale", "form", "expected"),
    [
        ("date", "2026-11-15", "en", "full", "Sunday, November 15, 2026"),
        ("date", "2026-11-15", "en_GB", "full", "Sunday, 15 November 2026"),
        ("date", "2026-11-13", "uk", "full", "п'ятниця, 13 листопада 2026 р."),
        ("time", "00:07", "en", "short", "12:07 AM"),
        ("amount", "1234.50 EUR", "de", "standard", "1.234,50 €"),
        ("amount", "12.00 CHF", "en", "standard", "CHF 12.00"),
        ("number", "234", "de", "words", "zweihundertvierunddreißig"),
        ("number", "510", "cs", "words", "pět set deset"),
        ("number", "2101", "nl", "words", "tweeduizend honderdeen"),
        ("number", "1", "nl", "words", "één"),
        ("number", "1216", "pt", "words", "mil duzentos e dezesseis"),
        ("number", "1100", "sv", "words", "ettusen etthundra"),
        ("number", "1234", "tr", "words", "bin iki yüz otuz dört"),
    ],
)
def test_written_as_the_language_does(kind: str, value: str, locale: str, form: str, expected: str) -> None:
    assert text(kind, value, locale, form) == expected


@pytest.mark.parametrize("locale", LOCALES)
def test_dates_and_times_are_babels(locale: str) -> None:
    for step in range(200):
        moment = datetime.datetime(1900, 1, 1) + datetime.timedelta(days=step * 367, minutes=step * 397)
        date, time = moment.date(), moment.time()
        for form in ("full", "long", "medium"):
            assert text("date", date.isoformat(), locale, form) == plain(format_date(date, form, locale=locale))
        assert text("time", f"{time:%H:%M}", locale) == plain(format_time(time, "short", locale=locale))


@pytest.mark.parametrize("locale", LOCALES)
def test_amounts_are_babels(locale: str) -> None:
    for number in ("0.00", "7.05", "999.99", "1000.00", "4321.50", "99999.10"):
        for currency in ("EUR", "USD", "GBP", "CHF"):
            shown = text("amount", f"{number} {currency}", locale)
            expected = plain(format_currency(Decimal(number), currency, None, locale))
            assert shown.replace("CHF ", "CHF") == expected.replace("CHF ", "CHF")
        assert text("amount", f"{number[:-3]} JPY", locale) == plain(
            format_currency(int(number[:-3]), "JPY", None, locale)
        )


@pytest.mark.parametrize("language", sorted(set(LANGUAGES) - {"cs", "nl", "pt", "sv", "tr"}))
def test_numbers_are_those_of_num2words_where_nothing_is_mended(language: str) -> None:
    assert [words(number, language) for number in NUMBERS] == [num2words(number, lang=language) for number in NUMBERS]


def test_no_word_is_one_number_here_and_another_there() -> None:
    meaning: dict[str, int] = {}
    for language in LANGUAGES:
        for number in (*range(200), *range(200, 10_000, 211)):
            assert meaning.setdefault(words(number, language), number) == number


def test_same_seed_same_pairs() -> None:
    first = list(pairs(500, split="train", seed=3))
    assert first == list(pairs(900, split="train", seed=3))[:500]
    assert first != list(pairs(500, split="train", seed=4))


def test_splits_do_not_move() -> None:
    assert {value: split(value) for value in KNOWN_SPLITS} == KNOWN_SPLITS
    assert {split(str(number)) for number in range(21)} == {"train"}
    counts = Counter(split(str(number)) for number in range(21, 10_000))
    assert counts["test"] == pytest.approx(500, abs=70)
    assert counts["validation"] == pytest.approx(500, abs=70)


def test_no_value_in_two_splits(many: list[Example]) -> None:
    parts = [{example.value for example in some} for some in (many[:60_000], many[60_000:63_000], many[63_000:])]
    for part, values in zip(SPLITS, parts, strict=True):
        assert {split(value) for value in values} == {part}
    assert len(set.union(*parts)) == sum(map(len, parts))


def test_target_is_a_function_of_source(many: list[Example]) -> None:
    targets: dict[str, str] = {}
    for example in many:
        assert targets.setdefault(example.source, example.target) == example.target
    assert len(targets) > 0.8 * len(many)


def test_sides_are_what_they_are_called(many: list[Example]) -> None:
    for source, target, _, source_language, target_language, value in many[:5000]:
        assert source.startswith(f">{target_language}< ")
        assert source_language != target_language
        assert source_language != ISO or source == f">{target_language}< {value}"
        assert target_language != ISO or target == value


def test_weekdays_are_kept_and_never_added() -> None:
    def has_weekday(shown: str) -> bool:
        return any(part in shown for part in ("day", "tag", "woch"))

    for example in pairs(2000, split="train", seed=1, languages=["en", "de"], kinds=["date"]):
        assert example.target_language == ISO or has_weekday(example.source) == has_weekday(example.target)


def test_balance(many: list[Example]) -> None:
    spoken = Counter(language for example in many for language in (example.source_language, example.target_language))
    kinds, ways = (Counter(getattr(example, name) for example in many) for name in ("kind", "direction"))
    assert spoken.pop(ISO) == pytest.approx(2 / 3 * len(many), rel=0.1)
    assert spoken.keys() == set(LANGUAGES)
    assert max(spoken.values()) < 1.2 * min(spoken.values())
    assert kinds.keys() == set(expressions.kinds())
    assert min(kinds.values()) > 0.1 * len(many)
    assert all(ways[way] == pytest.approx(len(many) / 3, rel=0.1) for way in DIRECTIONS)
    digits = Counter(len(example.value) for example in many if example.kind == "number")
    assert min(digits[2], digits[3]) > 0.1 * digits.total()
    assert {int(example.value[:4]) for example in many if example.kind == "date"} == set(range(1900, 2100))


def test_only_plain_characters(many: list[Example]) -> None:
    alphabet = set().union(*(example.source + example.target for example in many))
    assert {character for character in alphabet if character.isspace()} == {" "}
    assert all(character.isprintable() for character in alphabet)
    assert not alphabet & set("ʼ’{}%")
    assert len(alphabet) < 150
    assert all(" ".join(side.split()) == side for example in many for side in (example.source, example.target))


def test_choice_of_languages_kinds_and_directions() -> None:
    some = list(pairs(300, split="test", seed=1, languages=["fr", "en"], kinds=["time"], directions=["translate"]))
    assert {(example.source_language, example.target_language) for example in some} == {("fr", "en"), ("en", "fr")}
    assert {example.kind for example in some} == {"time"}
    alone = list(pairs(300, split="train", seed=1, languages=["en"]))
    assert {example.direction for example in alone} == {"normalise", "localise"}


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        (dict(languages=["en", "da"]), UnknownName, "unknown language: got 'da'"),
        (dict(kinds=["dates"]), UnknownName, "unknown kind: got 'dates'.* Did you mean 'date'"),
        (dict(split="dev"), UnknownName, "unknown split: got 'dev'"),
        (dict(languages=[]), UsageError, "no language to choose from"),
        (dict(count=-1), UsageError, "is negative: got -1"),
        (dict(languages=["en"], directions=["translate"]), UsageError, "no second language to translate into"),
    ],
)
def test_wrong_calls_say_so_at_once(wrong: dict[str, object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        pairs(**{"count": 1, "split": "train", "seed": 0, **wrong})


def test_written_files_hold_the_pairs(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "data"
    for _ in range(2):
        expressions.write(folder, train=50, validation=9, test=8, seed=5, languages=["en", "ru"])
    assert sorted(path.name for path in folder.iterdir()) == ["test.tsv", "train.tsv", "validation.tsv"]
    for part, count in zip(SPLITS, (50, 9, 8), strict=True):
        expected = [(e.source, e.target) for e in pairs(count, split=part, seed=5, languages=["en", "ru"])]
        assert list(ParallelText.tsv(folder / f"{part}.tsv").pairs()) == expected


def test_nothing_is_written_on_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        expressions.write(tmp_path / "data", train=5, validation=5, test=-5, seed=1)
    assert not list(tmp_path.iterdir())
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match="was not written"):
        expressions.write(tmp_path / "file", train=5, validation=5, test=5, seed=1)
