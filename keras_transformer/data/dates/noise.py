"""Stray capitals and spaces, as people type them."""

import functools
import random
from collections.abc import Callable

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
