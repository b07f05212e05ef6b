"""The built-in task: dates as people write them, to ISO 8601."""

import datetime as dt
import random
import sys
import time

import pytest

from keras_transformer.data import read_pairs
from keras_transformer.data.date_patterns import LOCALES, _reading
from keras_transformer.data.dates import (
    FIRST_DAY,
    LAST_DAY,
    _add_noise,
    _days_by_split,
    _generate_dates,
    _patterns_by_locale,
)
from keras_transformer.errors import InputError

pytest.importorskip("babel", reason="needs the demo extra")


def test_pairs_of_the_splits_share_no_date_for_any_seed() -> None:
    dates = [
        {target for seed in (0, 1) for _, target in _generate_dates(3000, seed=seed, split=split)}
        for split in ("train", "validation", "test")
    ]
    assert dates[0].isdisjoint(dates[1] | dates[2])
    assert dates[1].isdisjoint(dates[2])


def test_same_seed_same_pairs() -> None:
    assert _generate_dates(500, seed=3) == _generate_dates(500, seed=3)
    assert _generate_dates(500, seed=3)[:100] == _generate_dates(100, seed=3)
    assert _generate_dates(500, seed=3) != _generate_dates(500, seed=4)
    # The task itself must not change unnoticed: a saved model was trained on it.
    assert _generate_dates(2, seed=0, locales=["fr"]) == [
        (" 27 janv.  2094", "2094-01-27"),
        ("7 mars 2022", "2022-03-07"),
    ]


def test_generation_is_fast_short_and_in_iso_format() -> None:
    start = time.process_time()
    pairs = _generate_dates(60_000, seed=0)
    assert time.process_time() - start < 10
    assert max(len(source) for source, _ in pairs) <= 50
    for source, target in pairs[:2000]:
        day = dt.date.fromisoformat(target)
        assert FIRST_DAY <= day <= LAST_DAY
        assert source.strip()


def test_every_locale_and_style_keeps_its_order() -> None:
    written = _patterns_by_locale()
    assert tuple(written) == LOCALES
    assert [pattern.style for pattern in written["fr"]] == ["full", "long", "medium"]
    assert [pattern.style for pattern in written["de"]] == ["full", "long"]


def test_only_the_wanted_locales_are_written() -> None:
    sources = [source for source, _ in _generate_dates(300, locales=["ja"])]
    assert all(set("年/") & set(source) for source in sources)


def test_splits_cover_the_calendar_and_share_no_day() -> None:
    splits = _days_by_split()
    members = sorted(day for days in splits.values() for day in days)
    assert (members[0], members[-1]) == (FIRST_DAY, LAST_DAY) == (dt.date(1900, 1, 1), dt.date(2099, 12, 31))
    assert len(members) == len(set(members)) == 200 * 365 + 49
    percent = {split: round(100 * len(days) / len(members)) for split, days in splits.items()}
    assert percent == {"train": 90, "validation": 5, "test": 5}


def test_days_never_change_their_split() -> None:
    days = {dt.date(2023, 3, day) for day in range(1, 32)}
    splits = {
        split: sorted(day.day for day in days & set(members)) for split, members in _days_by_split().items()
    }
    assert (splits["test"], splits["validation"]) == ([1, 28], [])
    assert 3 in splits["train"]


@pytest.mark.parametrize(
    "character", ["ß", "\N{LATIN SMALL LETTER DOTLESS I}", "ς", "ŉ", "İ", "և", "ﬁ", "1", "月"]
)
def test_characters_without_a_reversible_capital_stay(character: str) -> None:
    generator = random.Random(0)
    assert {_add_noise(character, generator).strip() for _ in range(99)} == {character}


def test_case_of_reversible_letters_changes() -> None:
    generator = random.Random(0)
    assert {_add_noise("aäяώ", generator).strip() for _ in range(99)} >= {"aäяώ", "AÄЯΏ", "Aäяώ"}
    assert "aäяώ" in {_add_noise("AÄЯΏ", generator).strip() for _ in range(99)}


def test_noise_changes_nothing_that_is_read() -> None:
    generator = random.Random(0)
    days = generator.sample(_days_by_split()["train"], 30)
    changed = 0
    for pattern in (pattern for patterns in _patterns_by_locale().values() for pattern in patterns):
        for day in days:
            text = pattern.write(day)
            noisy = _add_noise(text, generator)
            assert _reading(noisy) == _reading(text)
            assert len(noisy.replace(" ", "")) == len(text.replace(" ", ""))
            changed += noisy != text
    assert changed > 1000


def test_dates_without_babel(monkeypatch: pytest.MonkeyPatch) -> None:
    _patterns_by_locale.cache_clear()  # another test may have read the patterns
    monkeypatch.setitem(sys.modules, "babel", None)
    with pytest.raises(InputError, match=r'pip install "\.\[demo\]"'):
        read_pairs("dates", num_pairs=3)
