import datetime as dt
import re

import pytest

from keras_transformer.data.dates.ambiguity import NUMERIC_ORDERS, reading, unambiguous
from keras_transformer.data.dates.cldr import LOCALES, DatePattern, cldr_patterns, numbers
from keras_transformer.data.dates.generation import FIRST_DAY, LAST_DAY

MARCH_3 = dt.date(2023, 3, 3)


def test_no_string_has_two_readings_in_the_whole_calendar(chosen_patterns: list[DatePattern]) -> None:
    """Exhaustive: all patterns, all days of 200 years, compared as careless readers see them."""
    in_2000 = [
        {
            (month, day, weekday): reading(pattern.compose(2000, month, day, weekday or 0))
            for month, day, _ in days_of(2000)
            for weekday in (range(7) if "{weekday}" in pattern.template else [None])
        }
        for pattern in chosen_patterns
    ]
    # The year is the only number of four digits: strings of two years are never equal.
    for texts in in_2000:
        assert all(re.findall("[0-9]{3,}", text) == ["2000"] for text in texts.values())
    # Within a year, a string names one day. Two hundred years have only 14 different calendars.
    calendars = {days_of(year) for year in range(FIRST_DAY.year, LAST_DAY.year + 1)}
    assert len(calendars) == 14
    for calendar in calendars:
        day_of: dict[str, tuple[int, int, int]] = {}
        for day in calendar:
            for texts in in_2000:
                text = texts[day] if day in texts else texts[(*day[:2], None)]
                assert day_of.setdefault(text, day) == day


def days_of(year: int) -> tuple[tuple[int, int, int], ...]:
    """Returns month, day and weekday of each day of a year."""
    first, last = dt.date(year, 1, 1).toordinal(), dt.date(year, 12, 31).toordinal()
    days = map(dt.date.fromordinal, range(first, last + 1))
    return tuple((day.month, day.day, day.weekday()) for day in days)


@pytest.mark.parametrize(
    ("template", "kept"),
    [
        ("{day}.{month}.{year}", False),
        ("{month}/{day}/{year}", False),
        ("{year}-{month}-{day}", True),
        ("{day}日 {month}月 {year}年", True),
    ],
)
def test_numeric_dates_are_kept_only_when_the_order_is_certain(template: str, kept: bool) -> None:
    pattern = DatePattern(
        locale="xx", style="medium", template=template, months=numbers(12), days=numbers(31)
    )
    assert unambiguous([pattern]) == [pattern] * kept


def test_two_patterns_that_disagree_are_both_left_out() -> None:
    months = tuple("abcdefghijkl")
    one, other = (
        DatePattern(locale=locale, style="long", template=template, months=names, days=numbers(31))
        for locale, template, names in (
            ("pl", "{day} {month} {year}", months),
            ("hr", "{day}. {month} {year}.", (*months[1:], "z")),
        )
    )
    assert unambiguous([one, other]) == []
    assert unambiguous([one]) == [one]
    assert unambiguous([one, one]) == [one, one]


def test_numeric_medium_dates_are_left_out_by_the_rule(chosen_patterns: list[DatePattern]) -> None:
    left_out = {
        (pattern.locale, pattern.style)
        for pattern in cldr_patterns(LOCALES)
        if pattern not in chosen_patterns
    }
    assert {("de", "medium"), ("ar", "medium"), ("fi", "medium")} <= left_out
    assert all(style == "medium" for _, style in left_out)


def test_reading_overlooks_case_punctuation_spaces_and_the_kind_of_digits() -> None:
    assert (
        reading("  \N{ARABIC-INDIC DIGIT ONE}. Straße,\u00a0(B) \u200f")
        == reading("1 STRASSE b")
        == "1 strasse b"
    )
    assert reading("Freitag 3") != reading("Freitag 4")


def test_numeric_orders_are_the_three_of_the_world() -> None:
    assert {pattern.write(MARCH_3) for pattern in NUMERIC_ORDERS if "{year} " in pattern.style} == {
        "2023 3 3",
        "2023 03 03",
    }
