"""The ways to write a date that the task knows, and which of them are unambiguous."""

import datetime as dt
import random
import re
import sys
import unicodedata

import pytest

from keras_transformer.data.date_patterns import (
    LOCALES,
    _cldr_patterns,
    _DatePattern,
    _numbers,
    _reading,
    _unambiguous,
)
from keras_transformer.data.dates import FIRST_DAY, LAST_DAY, _days_by_split, _patterns_by_locale
from keras_transformer.errors import InputError

format_date = pytest.importorskip("babel.dates", reason="needs the demo extra").format_date


@pytest.fixture(scope="module")
def chosen_patterns() -> list[_DatePattern]:
    """Every pattern that the task writes."""
    return [pattern for patterns in _patterns_by_locale().values() for pattern in patterns]


MARCH_3 = dt.date(2023, 3, 3)


@pytest.mark.slow
def test_no_string_has_two_readings_in_the_whole_calendar(chosen_patterns: list[_DatePattern]) -> None:
    """Exhaustive: all patterns, all days of 200 years, compared as careless readers see them."""
    in_2000 = [
        {
            (month, day, weekday): _reading(pattern.compose(2000, month, day, weekday or 0))
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
    pattern = _DatePattern(
        locale="xx", style="medium", template=template, months=_numbers(12), days=_numbers(31)
    )
    assert _unambiguous([pattern]) == [pattern] * kept


def test_two_patterns_that_disagree_are_both_left_out() -> None:
    months = tuple("abcdefghijkl")
    one, other = (
        _DatePattern(locale=locale, style="long", template=template, months=names, days=_numbers(31))
        for locale, template, names in (
            ("pl", "{day} {month} {year}", months),
            ("hr", "{day}. {month} {year}.", (*months[1:], "z")),
        )
    )
    assert _unambiguous([one, other]) == []
    assert _unambiguous([one]) == [one]
    assert _unambiguous([one, one]) == [one, one]


def test_numeric_medium_dates_are_left_out_by_the_rule(chosen_patterns: list[_DatePattern]) -> None:
    left_out = {
        (pattern.locale, pattern.style)
        for pattern in _cldr_patterns(LOCALES)
        if pattern not in chosen_patterns
    }
    assert {("de", "medium"), ("ar", "medium"), ("fi", "medium")} <= left_out
    assert all(style == "medium" for _, style in left_out)


def test_reading_overlooks_case_punctuation_spaces_and_the_kind_of_digits() -> None:
    assert (
        _reading("  \N{ARABIC-INDIC DIGIT ONE}. Straße,\u00a0(B) \u200f")
        == _reading("1 STRASSE b")
        == "1 strasse b"
    )
    assert _reading("Freitag 3") != _reading("Freitag 4")


@pytest.mark.parametrize(
    ("locale", "expected"),
    [
        ("fr", "vendredi 3 mars 2023"),
        ("uk", "\N{CYRILLIC SMALL LETTER PE}ʼятниця, 3 березня 2023 \N{CYRILLIC SMALL LETTER ER}."),
        ("ar_EG", "الجمعة، ٣ مارس ٢٠٢٣"),
        ("mr", "शुक्रवार, ३ मार्च, २०२३"),
        ("fa", "جمعه ۳ مارس ۲۰۲۳"),
        ("zh_Hans", "2023年3月3日星期五"),
    ],
)
def test_full_dates_are_written_as_people_write_them(locale: str, expected: str) -> None:
    assert expected in [pattern.write(MARCH_3) for pattern in _cldr_patterns([locale])]


def test_patterns_write_what_babel_writes() -> None:
    days = random.Random(0).sample(_days_by_split()["train"], 20)
    for pattern in _cldr_patterns(LOCALES):
        native = str.maketrans("0123456789", pattern.digits)
        for day in days:
            expected = format_date(day, pattern.style, locale=pattern.locale)
            expected = re.sub("[\u200e\u200f]", "", re.sub("[\u00a0\u202f]", " ", expected))
            assert pattern.write(day) == expected.translate(native)


def test_two_digit_years_are_left_out() -> None:
    assert [pattern.style for pattern in _cldr_patterns(["fr"])] == ["full", "long", "medium"]
    assert _cldr_patterns(["en_US"], styles=["short"]) == []


def test_unknown_locales_are_named() -> None:
    with pytest.raises(InputError, match="Received: 'xx_NO_WHERE'"):
        _cldr_patterns(["xx_NO_WHERE"])


def test_missing_babel_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "babel", None)
    with pytest.raises(InputError, match=r'python -m pip install "\.\[demo\]"'):
        _cldr_patterns(["fr"])


def test_many_locales_and_scripts_are_written(chosen_patterns: list[_DatePattern]) -> None:
    written = _patterns_by_locale()
    assert set(written) == set(LOCALES)
    assert 26 <= len(written) <= 40
    letters = {letter for pattern in chosen_patterns for letter in pattern.write(dt.date(2023, 3, 3))}
    scripts = {unicodedata.name(letter).split()[0] for letter in letters if letter.isalpha()}
    assert scripts >= {
        *("LATIN", "CYRILLIC", "GREEK", "HEBREW", "ARABIC", "DEVANAGARI"),
        *("BENGALI", "TAMIL", "THAI", "HANGUL", "CJK"),
    }


ARABIC_DIGITS = "٠١٢٣٤٥٦٧٨٩"
FULL = _DatePattern(
    locale="xx",
    style="full",
    template="{weekday} {day} {{{month}}} {year}",
    months=tuple("abcdefghijkl"),
    days=_numbers(31, width=2, digits=ARABIC_DIGITS),
    weekdays=("Mo", "Tu", "We", "Th", "Fr", "Sa", "Su"),
    digits=ARABIC_DIGITS,
)


def test_a_date_is_written_with_names_and_native_digits() -> None:
    assert FULL.write(dt.date(2023, 3, 5)) == "Su \u0660\u0665 {c} \u0662\u0660\u0662\u0663"


def test_write_is_compose_of_the_date() -> None:
    assert FULL.write(dt.date(1999, 12, 31)) == FULL.compose(1999, 12, 31, 4)


@pytest.mark.parametrize(
    ("width", "expected"), [(1, ("1", "2", "3")), (2, ("01", "02", "03")), (3, ("001", "002", "003"))]
)
def test_numbers_are_padded(width: int, expected: tuple[str, ...]) -> None:
    assert _numbers(3, width=width) == expected


def test_numbers_of_two_digits_fill_their_width() -> None:
    assert _numbers(31, width=2)[9:12] == ("10", "11", "12")
    assert len(_numbers(31)) == 31
