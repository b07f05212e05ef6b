import datetime as dt

from keras_transformer.data.dates.generation import FIRST_DAY, LAST_DAY, all_days, days_by_split, split_of


def test_splits_cover_the_calendar_and_share_no_day() -> None:
    splits = days_by_split()
    members = [day for days in splits.values() for day in days]
    assert sorted(members) == all_days()
    percent = {split: round(100 * len(days) / len(members)) for split, days in splits.items()}
    assert percent == {"train": 90, "validation": 5, "test": 5}


def test_the_calendar_has_two_hundred_years() -> None:
    days = all_days()
    assert (days[0], days[-1]) == (FIRST_DAY, LAST_DAY) == (dt.date(1900, 1, 1), dt.date(2099, 12, 31))
    assert len(days) == len(set(days)) == 200 * 365 + 49


def test_days_never_change_their_split() -> None:
    days = [dt.date(2023, 3, day) for day in range(1, 32)]
    assert [day.day for day in days if split_of(day) == "test"] == [1, 28]
    assert [day.day for day in days if split_of(day) == "validation"] == []
    assert split_of(dt.date(2023, 3, 3)) == "train"
