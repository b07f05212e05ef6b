"""What tokenizers make of texts before they split them."""

import os
import subprocess
import sys

import pytest

from keras_transformer.text import CharacterTokenizer, WhitespaceTokenizer

LOWER_SCRIPT = """
from keras_transformer.text import CharacterTokenizer
tokenizer = CharacterTokenizer("i\u0307ìjį àς", lowercase=True)
print(ascii(tokenizer.round_trip(["IİÌJĮ ÀΣ"])[0]))
"""


def lowered(*texts: str) -> list[str]:
    """Write texts with every character that their lower-cased form has."""
    return CharacterTokenizer.train(texts, lowercase=True).round_trip(texts)


def test_what_is_valid_stays() -> None:
    texts = ["", "abc", "ünï", "שלום", "\U0001f600", "\t\n\r\x01"]
    assert CharacterTokenizer.train(texts).round_trip(texts) == texts


@pytest.mark.parametrize("lowercase", [False, True])
@pytest.mark.parametrize("damaged", [b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf0\x9f", b"\x00"])
def test_what_is_not_utf8_is_unknown_and_cuts_nothing_off(damaged: bytes, lowercase: bool) -> None:
    [[first, *unknown, last]] = (
        CharacterTokenizer("ab", lowercase=lowercase).tokenize([b"a" + damaged + b"b"]).to_list()
    )
    assert (first, last, set(unknown)) == (4, 5, {1})


def test_lower_case_follows_unicode() -> None:
    assert lowered("ABC", "ÄÖÜ", "ПРИВЕТ", "ΑΣ", "İ", "ß漢") == ["abc", "äöü", "привет", "ας", "i̇", "ß漢"]


@pytest.mark.slow
@pytest.mark.parametrize("locale", ["tr_TR.UTF-8", pytest.param("lt_LT.UTF-8", marks=pytest.mark.slow)])
def test_lower_case_is_the_same_in_every_locale(locale: str) -> None:
    run = subprocess.run(
        [sys.executable, "-c", LOWER_SCRIPT],
        env={**os.environ, "LC_ALL": locale, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.strip() == ascii("ii̇ìjį àς")


def test_white_space_is_that_of_python() -> None:
    spaces = [chr(c) for c in range(1, 0x110000) if chr(c).isspace()]
    texts = [f" a{space}{space}b{space}" for space in spaces]
    assert WhitespaceTokenizer(["a", "b"]).tokenize(texts).to_list() == [[4, 5]] * len(spaces)


def test_everything_else_belongs_to_a_word() -> None:
    others = [chr(c) for c in range(1, 0x3100) if not chr(c).isspace()]
    assert WhitespaceTokenizer.train(others).round_trip(others) == others
