"""The days of the dates task, and who gets which."""

import datetime as dt
import functools
import hashlib

FIRST_DAY = dt.date(1900, 1, 1)
LAST_DAY = dt.date(2099, 12, 31)

#: Hundredths of all days that are kept out of training.
HELD_OUT = {"validation": 5, "test": 5}
SPLITS: tuple[str, ...] = ("train", *HELD_OUT)


def split_of(date: dt.date) -> str:
    """Return the split that a day belongs to: always the same one, whatever the seed."""
    digest = hashlib.sha256(date.isoformat().encode()).digest()
    hundredth = int.from_bytes(digest[:8], "big") % 100
    if hundredth < HELD_OUT["test"]:
        return "test"
    return "validation" if hundredth < HELD_OUT["test"] + HELD_OUT["validation"] else "train"


def all_days() -> list[dt.date]:
    """Return every day from `FIRST_DAY` to `LAST_DAY`."""
    num_days = (LAST_DAY - FIRST_DAY).days + 1
    return [FIRST_DAY + dt.timedelta(days=offset) for offset in range(num_days)]


@functools.lru_cache(maxsize=1)
def days_by_split() -> dict[str, tuple[dt.date, ...]]:
    """Return the days of each split, in order."""
    days: dict[str, list[dt.date]] = {split: [] for split in SPLITS}
    for day in all_days():
        days[split_of(day)].append(day)
    return {split: tuple(members) for split, members in days.items()}
