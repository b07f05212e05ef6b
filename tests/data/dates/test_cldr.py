import datetime as dt
import random
import re
import sys

import pytest
from babel.dates import format_date

from keras_transformer.data.dates.cldr import LOCALES, cldr_patterns
from keras_transformer.data.dates.generation import all_days
from keras_transformer.errors import InputError

MARCH_3 = dt.date(2023, 3, 3)


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
    assert expected in [pattern.write(MARCH_3) for pattern in cldr_patterns([locale])]


def test_patterns_write_what_babel_writes() -> None:
    days = random.Random(0).sample(all_days(), 20)
    for pattern in cldr_patterns(LOCALES):
        native = str.maketrans("0123456789", pattern.digits)
        for day in days:
            expected = format_date(day, pattern.style, locale=pattern.locale)
            expected = re.sub("[\u200e\u200f]", "", re.sub("[\u00a0\u202f]", " ", expected))
            assert pattern.write(day) == expected.translate(native)


def test_two_digit_years_are_left_out() -> None:
    assert [pattern.style for pattern in cldr_patterns(["fr"])] == ["full", "long", "medium"]
    assert cldr_patterns(["en_US"], styles=["short"]) == []


def test_unknown_locales_are_named() -> None:
    with pytest.raises(InputError, match="Received: 'xx_NO_WHERE'"):
        cldr_patterns(["xx_NO_WHERE"])


def test_missing_babel_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "babel", None)
    with pytest.raises(InputError, match=r'python -m pip install "\.\[demo\]"'):
        cldr_patterns(["fr"])
