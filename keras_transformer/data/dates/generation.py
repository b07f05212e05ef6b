"""Pairs of a date as people write it and the same date in ISO 8601."""

import datetime as dt
import functools
import random
from collections.abc import Sequence

from keras_transformer.data.dates.ambiguity import unambiguous
from keras_transformer.data.dates.calendar import SPLITS, days_by_split
from keras_transformer.data.dates.cldr import cldr_patterns
from keras_transformer.data.dates.locales import LOCALES
from keras_transformer.data.dates.noise import add_noise
from keras_transformer.data.dates.pattern import DatePattern


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
