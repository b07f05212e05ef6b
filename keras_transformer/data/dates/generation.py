"""Pairs of a date as people write it and the same date in ISO 8601."""

import datetime as dt
import functools
import hashlib
import random
from collections.abc import Callable, Sequence

from keras_transformer.data.dates.ambiguity import unambiguous
from keras_transformer.data.dates.cldr import LOCALES, DatePattern, cldr_patterns

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


#: How often the letters of a string are written as given, lower, upper, capitalized or at random.
CASE_WEIGHTS = (50, 12, 12, 13, 13)
#: How many stray spaces are put into a string, and how often.
STRAY_SPACES, SPACE_WEIGHTS = (0, 1, 2, 3), (70, 15, 10, 5)


def add_noise(text: str, generator: random.Random) -> str:
    """Return `text` with stray capitals and spaces; words and digits stay what they are."""
    random_capitals = functools.partial(_random_capitals, generator=generator)
    cases: tuple[Callable[[str], str], ...] = (*_CASES, random_capitals)
    (change_case,) = generator.choices(cases, CASE_WEIGHTS)
    (num_spaces,) = generator.choices(STRAY_SPACES, SPACE_WEIGHTS)
    text = change_case(text)
    for _ in range(num_spaces):
        text = _add_space(text, generator)
    return text


def upper(character: str) -> str:
    """Return the capital of a letter, or the character itself where the way back is not the same.

    Some letters have no capital of their own: `'ß'.upper()` is `'SS'`, and the Turkish i without a
    dot has the capital of `i`.
    """
    capital = character.upper()
    return capital if capital.lower() == character else character


def lower(character: str) -> str:
    """Return the small letter of a capital, or the character itself as `upper` does."""
    small = character.lower()
    return small if small.upper() == character else character


def _all_lower(text: str) -> str:
    return "".join(map(lower, text))


def _all_upper(text: str) -> str:
    return "".join(map(upper, text))


def _capitalized(text: str) -> str:
    return " ".join(upper(word[:1]) + word[1:] for word in text.split(" "))


def _random_capitals(text: str, generator: random.Random) -> str:
    return "".join(upper(character) if generator.random() < 0.2 else character for character in text)


def _add_space(text: str, generator: random.Random) -> str:
    """Add a space at the start, at the end or beside a space that is there."""
    places = [0, len(text), *(index for index, character in enumerate(text) if character == " ")]
    place = generator.choice(places)
    return f"{text[:place]} {text[place:]}"


_CASES: tuple[Callable[[str], str], ...] = (str, _all_lower, _all_upper, _capitalized)


def generate_dates(
    num_pairs: int, *, seed: int = 0, split: str = "train", locales: Sequence[str] = LOCALES
) -> list[tuple[str, str]]:
    """Write random days of the years 1900 to 2099 in the ways of many languages.

    The days of the three splits are disjoint for all seeds, so that no test date was seen in
    training in any language. Locales are equally frequent. About half of the strings have stray
    capitals or spaces.

    Args:
        num_pairs: How many pairs to write.
        seed: The same seed, split and locales give the same pairs.
        split: `"train"`, `"validation"` or `"test"`.
        locales: Names of CLDR locales.

    Returns:
        Pairs such as `("vendredi 3 mars 2023", "2023-03-03")`.

    Raises:
        ValueError: `num_pairs` is negative or `split` is not one of the three.
        InputError: The package `babel` is not installed, or it does not know a locale.
    """
    if num_pairs < 0:
        raise ValueError(f"`num_pairs` must be 0 or more. Received: num_pairs={num_pairs}.")
    if split not in SPLITS:
        raise ValueError(f"`split` must be one of {', '.join(SPLITS)}. Received: split={split!r}.")
    patterns = list(patterns_by_locale(tuple(locales)).values())
    days = days_by_split()[split]
    generator = random.Random(f"{seed} {split}")
    return [_pair(patterns, days, generator) for _ in range(num_pairs)]


@functools.lru_cache(maxsize=8)
def patterns_by_locale(locales: tuple[str, ...] = LOCALES) -> dict[str, tuple[DatePattern, ...]]:
    """Return the patterns that `generate_dates` writes: the unambiguous ones of each locale.

    A locale without an unambiguous pattern has no entry.

    Raises:
        InputError: The package `babel` is not installed, or it does not know a locale.
    """
    chosen: dict[str, list[DatePattern]] = {}
    for pattern in unambiguous(cldr_patterns(locales)):
        chosen.setdefault(pattern.locale, []).append(pattern)
    return {locale: tuple(patterns) for locale, patterns in chosen.items()}


def _pair(
    patterns: Sequence[Sequence[DatePattern]],
    days: Sequence[dt.date],
    generator: random.Random,
) -> tuple[str, str]:
    day = generator.choice(days)
    pattern = generator.choice(generator.choice(patterns))
    return add_noise(pattern.write(day), generator), day.isoformat()
