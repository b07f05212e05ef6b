"""Date patterns of the Unicode CLDR, read through the optional package `babel`."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

from keras_transformer.data.dates.locales import digits_of
from keras_transformer.data.dates.pattern import DatePattern, numbers
from keras_transformer.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from babel import Locale

STYLES: tuple[str, ...] = ("full", "long", "medium")

# A field of a CLDR pattern is a letter and a width: how often the letter is repeated.
_SLOTS = {"y": "year", "M": "month", "L": "month", "d": "day", "E": "weekday", "c": "weekday"}
_CONTEXTS = {"M": "format", "L": "stand-alone", "E": "format", "c": "stand-alone"}
_NAME_WIDTHS = {1: "abbreviated", 2: "abbreviated", 3: "abbreviated", 4: "wide", 5: "narrow"}
_TWO_DIGIT_YEAR = ("y", 2)
# Keyboards write one kind of space and no marks for the direction of text.
_KEYBOARD = str.maketrans({"\u00a0": " ", "\u202f": " ", "\u200e": None, "\u200f": None, "\u061c": None})


def cldr_patterns(locales: Sequence[str], styles: Sequence[str] = STYLES) -> list[DatePattern]:
    """Read the date patterns of `locales` in `styles` (`full`, `long`, `medium`, `short`).

    A pattern that has other fields than a day, month, year, era and weekday is left out, and so is
    one with a two-digit year. Digits are those that the locale uses by default.

    Raises:
        InputError: `babel` is not installed, or it does not know a locale.
    """
    compiled = [_compile(locale, style) for locale in map(_load, locales) for style in styles]
    return [pattern for pattern in compiled if pattern is not None]


def _load(name: str) -> Locale:
    try:
        from babel import Locale, UnknownLocaleError
    except ImportError:
        raise InputError(
            "The dates task needs the package `babel`, which is not installed. "
            'Install it with, in the clone: python -m pip install ".[demo]"'
        ) from None
    try:
        return Locale.parse(name)
    except (UnknownLocaleError, ValueError):
        raise InputError(
            f"A locale must be known to the package `babel`, like 'pt_BR'. Received: {name!r}."
        ) from None


def _compile(locale: Locale, style: str) -> DatePattern | None:
    from babel.dates import tokenize_pattern

    tokens = tokenize_pattern(locale.date_formats[style].pattern)
    fields = [token for kind, token in tokens if kind == "field" and token[0] != "G"]
    widths = {_SLOTS.get(letter, "other"): (letter, width) for letter, width in fields}
    if "other" in widths or _TWO_DIGIT_YEAR in fields or not {"year", "month", "day"} <= {*widths}:
        return None
    digits = digits_of(locale.default_numbering_system)
    return DatePattern(
        locale=str(locale),
        style=style,
        template="".join(_template_part(locale, token) for _, token in tokens),
        months=_months(locale, *widths["month"], digits=digits),
        days=numbers(31, width=widths["day"][1], digits=digits),
        weekdays=_weekdays(locale, *widths.get("weekday", ("E", 4))),
        digits=digits,
    )


def _template_part(locale: Locale, token: str | tuple[str, int]) -> str:
    """Return literal text or a slot; the era is text, since all dates are of this one."""
    if isinstance(token, str):
        return _typed(token).replace("{", "{{").replace("}", "}}")
    letter, width = token
    return _typed(locale.eras[_NAME_WIDTHS[width]][1]) if letter == "G" else f"{{{_SLOTS[letter]}}}"


def _months(locale: Locale, letter: str, width: int, *, digits: str) -> tuple[str, ...]:
    if width < 3:
        return numbers(12, width=width, digits=digits)
    names = locale.months[_CONTEXTS[letter]][_NAME_WIDTHS[width]]
    return tuple(_typed(names[month]) for month in range(1, 13))


def _weekdays(locale: Locale, letter: str, width: int) -> tuple[str, ...]:
    names = locale.days[_CONTEXTS[letter]][_NAME_WIDTHS[width]]
    return tuple(_typed(names[weekday]) for weekday in range(7))


def _typed(text: str) -> str:
    return unicodedata.normalize("NFC", text.translate(_KEYBOARD))
