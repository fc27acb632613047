"""How a locale writes dates, times, amounts and numbers, by CLDR through Babel, fast enough for training.

A value is given as normalised text: "2026-11-15", "15:07", "1234.50 EUR", "234". Babel looks up its patterns and names
for each value; here they are read once per locale and filled in, with the same result. Two things differ from Babel:
spaces and apostrophes are the plain ones of a keyboard, and a currency in letters is separated from the digits
("CHF 12.00"), as CLDR requires.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from random import Random
from typing import Any

from babel import Locale
from babel.dates import format_time
from babel.numbers import format_currency

from regard.data.datasets._numerals import words

_FIRST, _LAST = datetime.date(1900, 1, 1).toordinal(), datetime.date(2099, 12, 31).toordinal()
_CURRENCIES = ("EUR", "USD", "GBP", "CHF", "JPY")
_CONTEXTS = {"E": "format", "c": "stand-alone", "M": "format", "L": "stand-alone"}  # by pattern letter
_MONEY = re.compile(r"(\D*)1(\D)234(?:(\D)56)?(\D*)")


@dataclass(frozen=True)
class Kind:
    """A kind of value: its share of the pairs, how it is drawn, and how it is written in a locale and a form.

    `forms` maps each form of a source to the form of its translation; a normalised source gets the first.
    """

    weight: float
    draw: Callable[[Random], str]
    text: Callable[[str, str, str], str]
    forms: dict[str, str]


def plain(text: str) -> str:
    """The text with the plain spaces and apostrophes of a keyboard."""
    return " ".join(text.split()).replace("ʼ", "'").replace("’", "'")


def _draw_date(rng: Random) -> str:
    return datetime.date.fromordinal(_FIRST + int(rng.random() * (_LAST - _FIRST + 1))).isoformat()


def _date_text(value: str, locale: str, form: str) -> str:
    pattern, months, days = _calendar(locale, form)
    year, month, day = int(value[:4]), int(value[5:7]), int(value[8:])
    weekday = days[datetime.date(year, month, day).weekday()] if days else ""
    return pattern.format(y=year, M=month, d=day, month=months[month], weekday=weekday)


@cache
def _calendar(locale: str, form: str) -> tuple[str, dict[int, str], dict[int, str]]:
    """The locale's pattern as a template, and the names of months and days in it, if any."""
    data = Locale.parse(locale)
    pattern, months, days = data.date_formats[form].format, dict.fromkeys(range(1, 13), ""), dict[int, str]()
    for field in re.findall(r"%\((\w+)\)s", pattern):
        context, width = _CONTEXTS.get(field[0], ""), "wide" if len(field) == 4 else "abbreviated"
        if field[0] in "Ec":
            days, slot = _names(data.days[context][width]), "{weekday}"
        elif field[0] in "ML" and len(field) > 2:
            months, slot = _names(data.months[context][width]), "{month}"
        else:
            slot = "{" + field[0] + (":02}" if len(field) == 2 else "}")
        pattern = pattern.replace(f"%({field})s", slot)
    return plain(pattern), months, days


def _names(names: Mapping[Any, Any]) -> dict[int, str]:
    return {place: plain(name) for place, name in names.items()}


def _draw_time(rng: Random) -> str:
    return "{:02}:{:02}".format(*divmod(int(rng.random() * 24 * 60), 60))


@cache
def _time_text(value: str, locale: str, form: str) -> str:
    return plain(format_time(datetime.time.fromisoformat(value), "short", locale=locale))


def _draw_amount(rng: Random) -> str:
    currency = _CURRENCIES[int(rng.random() * len(_CURRENCIES))]
    units = int(10 ** (1 + int(rng.random() * 5)) * rng.random())
    if currency == "JPY":
        return f"{units} JPY"
    cents = int(rng.random() * 100) if rng.random() < 0.75 else 0
    return f"{units}.{cents:02} {currency}"


def _amount_text(value: str, locale: str, form: str) -> str:
    number, currency = value.split(" ")
    units, _, cents = number.partition(".")
    before, group, point, after = _money(locale, currency)
    return before + f"{int(units):,}".replace(",", group) + point + cents + after


@cache
def _money(locale: str, currency: str) -> tuple[str, str, str, str]:
    """The strings before an amount, between its thousands, before its cents and after it."""
    shown = plain(
        format_currency(Decimal("1234") if currency == "JPY" else Decimal("1234.56"), currency, locale=locale)
    )
    match = _MONEY.fullmatch(shown)
    assert match, f"{locale} writes an amount as {shown!r}"
    before, group, point, after = match.groups(default="")
    return before + " " * before[-1:].isalpha(), group, point, after


def _draw_number(rng: Random) -> str:
    """Draw a number: more digits are more likely, but far less so than in a uniform draw."""
    low, high = rng.choices(((0, 100), (100, 1000), (1000, 10000)), (3, 6, 11))[0]
    return str(low + int(rng.random() * (high - low)))


def _number_text(value: str, locale: str, form: str) -> str:
    return words(int(value), locale.partition("_")[0])


KINDS = {
    # A weekday in the source is kept in the translation; short and normalised forms become the long form.
    "date": Kind(7, _draw_date, _date_text, {"long": "long", "medium": "long", "full": "full"}),
    "number": Kind(6, _draw_number, _number_text, {"words": "words"}),
    "amount": Kind(4, _draw_amount, _amount_text, {"standard": "standard"}),
    "time": Kind(3, _draw_time, _time_text, {"short": "short"}),
}
