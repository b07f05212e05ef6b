"""Which ways to write a date can be read without knowing the language.

`03.04.2023` is March in one country and April in another: no reader can translate it. A pattern is
left out by rule, not by hand: when any of its strings could be read as another date in any other
pattern.
"""

import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Sequence

from keras_transformer.data.dates.cldr import DatePattern, numbers

# Feb 29 exists, so that every day of any year is compared.
_LEAP_YEAR = 2000
_DAYS_IN_MONTH = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)

#: All-numeric orders of the world; they are never written, only compared with.
NUMERIC_ORDERS: tuple[DatePattern, ...] = tuple(
    DatePattern(
        locale="numeric",
        style=order,
        template=order,
        months=numbers(12, width=width),
        days=numbers(31, width=width),
    )
    for order in ("{day} {month} {year}", "{month} {day} {year}", "{year} {month} {day}")
    for width in (1, 2)
)


class _Reading(dict[int, str | int | None]):
    """A translation table that fills itself: what a reader sees in each character."""

    def __missing__(self, code_point: int) -> str | int | None:
        character = chr(code_point)
        category = unicodedata.category(character)
        if category == "Nd":
            self[code_point] = str(unicodedata.digit(character))
        elif category == "Cf":
            self[code_point] = None
        else:
            self[code_point] = " " if category[0] in "PZ" else character
        return self[code_point]


_READING = _Reading()


def reading(text: str) -> str:
    """Return `text` without what readers overlook: case, punctuation, spaces, kind of digits.

    >>> reading("  Fr.,  3 MARS 2023 ")
    'fr 3 mars 2023'
    """
    return " ".join(text.casefold().translate(_READING).split())


def unambiguous(
    patterns: Sequence[DatePattern], rivals: Sequence[DatePattern] = NUMERIC_ORDERS
) -> list[DatePattern]:
    """Return the patterns none of whose strings can be read as another date.

    Strings are compared as their `reading`, over every day of a leap year with every weekday. One
    year is enough: years have four digits, which no reader takes for a day or a month. When two
    patterns disagree, both are left out.
    """
    dates_by_reading: dict[str, set[tuple[int, int]]] = defaultdict(set)
    readings: list[set[str]] = []
    for pattern in (*patterns, *rivals):
        readings.append(set())
        for key, month_and_day in _all_readings(pattern):
            dates_by_reading[key].add(month_and_day)
            readings[-1].add(key)
    ambiguous = {key for key, dates in dates_by_reading.items() if len(dates) > 1}
    return [
        pattern for pattern, written in zip(patterns, readings, strict=False) if ambiguous.isdisjoint(written)
    ]


def _all_readings(pattern: DatePattern) -> Iterator[tuple[str, tuple[int, int]]]:
    weekdays = range(7) if "{weekday}" in pattern.template else range(1)
    for month, last_day in enumerate(_DAYS_IN_MONTH, start=1):
        for day in range(1, last_day + 1):
            for weekday in weekdays:
                yield reading(pattern.compose(_LEAP_YEAR, month, day, weekday)), (month, day)
