import random

import pytest

from keras_transformer.data.dates.ambiguity import reading
from keras_transformer.data.dates.cldr import DatePattern
from keras_transformer.data.dates.generation import add_noise, all_days, lower, upper


@pytest.mark.parametrize(
    "character", ["ß", "\N{LATIN SMALL LETTER DOTLESS I}", "ς", "ŉ", "İ", "և", "ﬁ", "1", "月", " "]
)
def test_characters_without_a_reversible_capital_stay(character: str) -> None:
    assert upper(character) == character
    assert lower(character) == character


def test_case_of_reversible_letters_changes() -> None:
    assert [upper(letter) for letter in "aäяώ"] == list("AÄЯΏ")
    assert [lower(letter) for letter in "AÄЯΏ"] == list("aäяώ")


def test_noise_changes_nothing_that_is_read(chosen_patterns: list[DatePattern]) -> None:
    generator = random.Random(0)
    days = generator.sample(all_days(), 30)
    changed = 0
    for pattern in chosen_patterns:
        for day in days:
            text = pattern.write(day)
            noisy = add_noise(text, generator)
            assert reading(noisy) == reading(text)
            assert len(noisy.replace(" ", "")) == len(text.replace(" ", ""))
            changed += noisy != text
    assert changed > 1000
