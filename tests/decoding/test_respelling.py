"""What a vocabulary makes of a text."""

import pytest

from keras_transformer.decoding.text_translator import respelled
from keras_transformer.text import CharacterTokenizer, SubwordTokenizer, Tokenizer, WhitespaceTokenizer

TEXTS = ["Das Haus", "das  Dach", "½ Haus…"]


@pytest.mark.parametrize(
    ("tokenizer", "expected"),
    [
        (CharacterTokenizer.train(TEXTS), TEXTS),
        (CharacterTokenizer.train(TEXTS, lowercase=True), ["das haus", "das  dach", "½ haus…"]),
        (WhitespaceTokenizer.train(TEXTS), ["Das Haus", "das Dach", "½ Haus…"]),
    ],
)
def test_a_text_is_what_the_vocabulary_can_write(tokenizer: Tokenizer, expected: list[str]) -> None:
    assert respelled(TEXTS, tokenizer) == expected


def test_subwords_write_compatible_characters() -> None:
    assert respelled(["ab…"], SubwordTokenizer.train(["ab...", "a b ."] * 5, 12)) == ["ab..."]
