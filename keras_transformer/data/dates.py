"""Built-in translation task: dates in many languages to ISO 8601. Needs no download.

For example, `vendredi 3 mars 2023` becomes `2023-03-03`. About half of the strings have random capitals or
extra spaces.
"""

import datetime as dt
import functools
import hashlib
import itertools
import random
from collections.abc import Callable, Sequence
from operator import attrgetter

from keras_transformer.data.date_patterns import LOCALES, _cldr_patterns, _DatePattern, _unambiguous
from keras_transformer.types import Pair

FIRST_DAY = dt.date(1900, 1, 1)
LAST_DAY = dt.date(2099, 12, 31)

# Weights of the cases: unchanged, lower, upper, capitalized, random.
_CASE_WEIGHTS = (50, 12, 12, 13, 13)
# Number of extra spaces in a string, and their weights.
_STRAY_SPACES, _SPACE_WEIGHTS = (0, 1, 2, 3), (70, 15, 10, 5)


def _generate_dates(
    num_pairs: int, *, seed: int = 0, split: str = "train", locales: Sequence[str] = LOCALES
) -> list[Pair]:
    """Generate pairs of a random day, 1900 to 2099, in a random locale; locales are equally frequent."""
    patterns = list(_patterns_by_locale(tuple(locales)).values())
    days = _days_by_split()[split]
    generator = random.Random(f"{seed} {split}")
    pairs = []
    for _ in range(num_pairs):
        day, pattern = generator.choice(days), generator.choice(generator.choice(patterns))
        pairs.append((_add_noise(pattern.write(day), generator), day.isoformat()))
    return pairs


@functools.lru_cache(maxsize=8)
def _patterns_by_locale(locales: tuple[str, ...] = LOCALES) -> dict[str, tuple[_DatePattern, ...]]:
    """Return the unambiguous patterns of each locale that has any."""
    # `groupby` needs patterns of the same locale next to each other, which they are.
    groups = itertools.groupby(_unambiguous(_cldr_patterns(locales)), key=attrgetter("locale"))
    return {locale: tuple(patterns) for locale, patterns in groups}


@functools.lru_cache(maxsize=1)
def _days_by_split() -> dict[str, tuple[dt.date, ...]]:
    days: dict[str, list[dt.date]] = {"train": [], "validation": [], "test": []}
    for offset in range((LAST_DAY - FIRST_DAY).days + 1):
        day = FIRST_DAY + dt.timedelta(days=offset)
        # Split by hash, so that no test date occurs in training, whatever the seed and language. 5 % of the
        # days are for test and 5 % for validation.
        digest = hashlib.sha256(day.isoformat().encode()).digest()
        hundredth = int.from_bytes(digest[:8], "big") % 100
        days["test" if hundredth < 5 else "validation" if hundredth < 10 else "train"].append(day)
    return {split: tuple(members) for split, members in days.items()}


def _add_noise(text: str, generator: random.Random) -> str:
    """Return `text` with random capitals and extra spaces, which keep words and digits."""
    (change_case,) = generator.choices(_CASES, _CASE_WEIGHTS)
    (num_spaces,) = generator.choices(_STRAY_SPACES, _SPACE_WEIGHTS)
    text = change_case(text, generator)
    for _ in range(num_spaces):
        # At the start, at the end or next to an existing space.
        indices = [0, len(text), *(index for index, character in enumerate(text) if character == " ")]
        index = generator.choice(indices)
        text = f"{text[:index]} {text[index:]}"
    return text


def _upper_letter(character: str) -> str:
    """Return the upper case of a letter, or the letter if lower-casing would not restore it."""
    # For example, `'ß'.upper()` is `'SS'`, and the Turkish dotless i has the same capital as `i`.
    capital = character.upper()
    return capital if capital.lower() == character else character


def _lower_letter(character: str) -> str:
    """Return the lower case of a letter, or the letter if upper-casing would not restore it."""
    small = character.lower()
    return small if small.upper() == character else character


_CASES: tuple[Callable[[str, random.Random], str], ...] = (
    lambda text, _: text,
    lambda text, _: "".join(map(_lower_letter, text)),
    lambda text, _: "".join(map(_upper_letter, text)),
    lambda text, _: " ".join(_upper_letter(word[:1]) + word[1:] for word in text.split(" ")),
    lambda text, generator: "".join(
        _upper_letter(letter) if generator.random() < 0.2 else letter for letter in text
    ),
)
