import datetime as dt

import pytest

from keras_transformer.data.dates.cldr import DatePattern, digits_of, numbers

FULL = DatePattern(
    locale="xx",
    style="full",
    template="{weekday} {day} {{{month}}} {year}",
    months=tuple("abcdefghijkl"),
    days=numbers(31, width=2, digits=digits_of("arab")),
    weekdays=("Mo", "Tu", "We", "Th", "Fr", "Sa", "Su"),
    digits=digits_of("arab"),
)


def test_a_date_is_written_with_names_and_native_digits() -> None:
    assert FULL.write(dt.date(2023, 3, 5)) == "Su \u0660\u0665 {c} \u0662\u0660\u0662\u0663"


def test_write_is_compose_of_the_date() -> None:
    assert FULL.write(dt.date(1999, 12, 31)) == FULL.compose(1999, 12, 31, 4)


@pytest.mark.parametrize(
    ("width", "expected"), [(1, ("1", "2", "3")), (2, ("01", "02", "03")), (3, ("001", "002", "003"))]
)
def test_numbers_are_padded(width: int, expected: tuple[str, ...]) -> None:
    assert numbers(3, width=width) == expected


def test_numbers_of_two_digits_fill_their_width() -> None:
    assert numbers(31, width=2)[9:12] == ("10", "11", "12")
    assert len(numbers(31)) == 31
