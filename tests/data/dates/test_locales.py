import datetime as dt
import unicodedata

from keras_transformer.data.dates.cldr import LOCALES, DatePattern, digits_of
from keras_transformer.data.dates.generation import patterns_by_locale


def test_many_locales_and_scripts_are_written(chosen_patterns: list[DatePattern]) -> None:
    written = patterns_by_locale()
    assert set(written) == set(LOCALES)
    assert 26 <= len(written) <= 40
    letters = {letter for pattern in chosen_patterns for letter in pattern.write(dt.date(2023, 3, 3))}
    scripts = {unicodedata.name(letter).split()[0] for letter in letters if letter.isalpha()}
    assert scripts >= {
        *("LATIN", "CYRILLIC", "GREEK", "HEBREW", "ARABIC", "DEVANAGARI"),
        *("BENGALI", "TAMIL", "THAI", "HANGUL", "CJK"),
    }


def test_digits_of_unlisted_systems_are_latin() -> None:
    assert digits_of("deva") == "०१२३४५६७८९"
    assert digits_of("hanidec") == "0123456789"
