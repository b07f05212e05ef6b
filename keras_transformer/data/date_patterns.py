"""Date formats of many languages, from the Unicode CLDR through the optional package `babel`.

A string such as `03.04.2023` is ambiguous: March in one country, April in another. A pattern is excluded if
any of its strings could be read as a different date in any other pattern.
"""

from __future__ import annotations

import dataclasses
import itertools
import unicodedata
from collections import defaultdict
from typing import TYPE_CHECKING

from keras_transformer.errors import InputError

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Sequence

    from babel import Locale

# CLDR locales with the Gregorian calendar, grouped by script.
LOCALES: tuple[str, ...] = (
    *("en_US", "en_GB", "de", "fr", "es", "it", "pt_BR", "nl", "ro", "sv", "da", "nb", "is"),
    *("fi", "et", "lv", "lt", "pl", "cs", "hu", "tr", "id", "vi"),
    *("ru", "uk", "bg"),
    *("el", "he", "ar", "ar_EG", "fa"),
    *("hi", "mr", "bn", "ta", "th"),
    *("ko", "ja", "zh_Hans"),
)
STYLES: tuple[str, ...] = ("full", "long", "medium")

# Digit zero of the non-Latin CLDR numbering systems. The digits 1 to 9 follow it in Unicode.
_ZERO_DIGITS: dict[str, str] = {
    "arab": "\N{ARABIC-INDIC DIGIT ZERO}",
    "arabext": "\N{EXTENDED ARABIC-INDIC DIGIT ZERO}",
    "deva": "\N{DEVANAGARI DIGIT ZERO}",
    "beng": "\N{BENGALI DIGIT ZERO}",
}

# A field of a CLDR pattern is a letter and a width (the number of repetitions).
_SLOTS = {"y": "year", "M": "month", "L": "month", "d": "day", "E": "weekday", "c": "weekday"}
_CONTEXTS = {"M": "format", "L": "stand-alone", "E": "format", "c": "stand-alone"}
_NAME_WIDTHS = {1: "abbreviated", 2: "abbreviated", 3: "abbreviated", 4: "wide", 5: "narrow"}
_TWO_DIGIT_YEAR = ("y", 2)
# Replace characters that users do not type: special spaces and text direction characters.
_KEYBOARD = str.maketrans({"\u00a0": " ", "\u202f": " ", "\u200e": None, "\u200f": None, "\u061c": None})

# A leap year, so that February 29 is compared too.
_LEAP_YEAR = 2000
_DAYS_IN_MONTH = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _DatePattern:
    """A date format of a locale."""

    locale: str  # CLDR locale, for example `pt_BR`
    style: str  # CLDR style: `full`, `long` or `medium`
    template: str  # format string with `{year}`, `{month}`, `{day}` and optionally `{weekday}`
    months: tuple[str, ...]  # names or numbers of the months 1 to 12
    days: tuple[str, ...]
    weekdays: tuple[str, ...] = ("",) * 7  # Monday first
    digits: str = "0123456789"  # digits of the year

    def write(self, date: dt.date) -> str:
        return self.compose(date.year, date.month, date.day, date.weekday())

    def compose(self, year: int, month: int, day: int, weekday: int) -> str:
        """Return the formatted date. `weekday` is 0 for Monday."""
        return self.template.format(
            year="".join([self.digits[int(digit)] for digit in str(year)]),
            month=self.months[month - 1],
            day=self.days[day - 1],
            weekday=self.weekdays[weekday],
        )


def _numbers(last: int, *, width: int = 1, digits: str = "0123456789") -> tuple[str, ...]:
    """Return the numbers 1 to `last`, zero-padded to `width`, in the given digits."""
    native = str.maketrans("0123456789", digits)
    return tuple(str(value).zfill(width).translate(native) for value in range(1, last + 1))


# All-numeric formats. They are never generated, only checked for ambiguity.
_NUMERIC_ORDERS: tuple[_DatePattern, ...] = tuple(
    _DatePattern(locale="numeric", style=order, template=order, months=months, days=days)
    for order in ("{day} {month} {year}", "{month} {day} {year}", "{year} {month} {day}")
    for months, days in ((_numbers(12, width=width), _numbers(31, width=width)) for width in (1, 2))
)


def _cldr_patterns(locales: Sequence[str], styles: Sequence[str] = STYLES) -> list[_DatePattern]:
    """Return the date patterns of the locales; raise InputError if `babel` or a locale is missing."""
    try:
        from babel import Locale, UnknownLocaleError
    except ImportError:
        raise InputError(
            "The dates task needs the package `babel`, which is not installed. "
            'Install it with, in the clone: python -m pip install ".[demo]"'
        ) from None
    compiled = []
    for name in locales:
        try:
            locale = Locale.parse(name)
        except (UnknownLocaleError, ValueError):
            raise InputError(
                f"A locale must be known to the package `babel`, like 'pt_BR'. Received: {name!r}."
            ) from None
        compiled += [_compile(locale, style) for style in styles]
    return [pattern for pattern in compiled if pattern is not None]


def _compile(locale: Locale, style: str) -> _DatePattern | None:
    from babel.dates import tokenize_pattern

    tokens = tokenize_pattern(locale.date_formats[style].pattern)
    fields = [token for kind, token in tokens if kind == "field" and token[0] != "G"]
    widths = {_SLOTS.get(letter, "other"): (letter, width) for letter, width in fields}
    # Excluded: patterns with fields other than day, month, year, era and weekday, or with a two-digit year.
    if "other" in widths or _TWO_DIGIT_YEAR in fields or not {"year", "month", "day"} <= {*widths}:
        return None
    zero = ord(_ZERO_DIGITS.get(locale.default_numbering_system, "0"))
    digits = "".join(chr(zero + value) for value in range(10))
    letter, width = widths["month"]
    months = _numbers(12, width=width, digits=digits)
    if width > 2:
        names = locale.months[_CONTEXTS[letter]][_NAME_WIDTHS[width]]
        months = tuple(_typed(names[month]) for month in range(1, 13))
    letter, width = widths.get("weekday", ("E", 4))
    weekdays = locale.days[_CONTEXTS[letter]][_NAME_WIDTHS[width]]
    return _DatePattern(
        locale=str(locale),
        style=style,
        template="".join(_template_part(locale, token) for _, token in tokens),
        months=months,
        days=_numbers(31, width=widths["day"][1], digits=digits),
        weekdays=tuple(_typed(weekdays[weekday]) for weekday in range(7)),
        digits=digits,
    )


def _template_part(locale: Locale, token: str | tuple[str, int]) -> str:
    """Return a literal or a slot of the template. The era is a literal, as it is the same for all dates."""
    if isinstance(token, str):
        return _typed(token).replace("{", "{{").replace("}", "}}")
    letter, width = token
    return _typed(locale.eras[_NAME_WIDTHS[width]][1]) if letter == "G" else f"{{{_SLOTS[letter]}}}"


def _typed(text: str) -> str:
    return unicodedata.normalize("NFC", text.translate(_KEYBOARD))


def _unambiguous(patterns: Sequence[_DatePattern]) -> list[_DatePattern]:
    """Return the patterns whose strings cannot be read as a different date."""
    # Compare normalized strings of every day of a leap year with every weekday. One year is enough, because a
    # four-digit year cannot be read as a day or a month.
    dates_by_reading: dict[str, set[tuple[int, int]]] = defaultdict(set)
    readings: list[set[str]] = []
    dates = [(month, day + 1) for month, days in enumerate(_DAYS_IN_MONTH, start=1) for day in range(days)]
    for pattern in (*patterns, *_NUMERIC_ORDERS):
        readings.append(set())
        weekdays = range(7) if "{weekday}" in pattern.template else range(1)
        for (month, day), weekday in itertools.product(dates, weekdays):
            reading = _reading(pattern.compose(_LEAP_YEAR, month, day, weekday))
            dates_by_reading[reading].add((month, day))
            readings[-1].add(reading)
    # If two patterns disagree, both are excluded.
    ambiguous = {reading for reading, dates in dates_by_reading.items() if len(dates) > 1}
    pairs = zip(patterns, readings, strict=False)
    return [pattern for pattern, written in pairs if ambiguous.isdisjoint(written)]


def _reading(text: str) -> str:
    """Normalize case, punctuation, spaces and digits, which readers overlook."""
    return " ".join(text.casefold().translate(_READING).split())


class _Reading(dict[int, str]):
    """Translation table that normalizes a character when it is first looked up."""

    def __missing__(self, code_point: int) -> str:
        character = chr(code_point)
        category = unicodedata.category(character)
        if category == "Nd":
            character = str(unicodedata.digit(character))
        elif category[0] in "PZ":
            character = " "
        return self.setdefault(code_point, "" if category == "Cf" else character)


_READING = _Reading()
