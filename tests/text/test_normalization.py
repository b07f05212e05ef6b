import os
import subprocess
import sys
from collections.abc import Callable

import pytest
import tensorflow as tf

from keras_transformer.text.normalization import lower, normalize, single_spaces, valid_utf8

LOWER_SCRIPT = """
import tensorflow as tf
from keras_transformer.text.normalization import lower
print(ascii(lower(tf.constant(["IİÌJĮ ÀΣ"])).numpy()[0].decode()))
"""


def apply(function: Callable[[tf.Tensor], tf.Tensor], *texts: str | bytes) -> list[str]:
    rows = [text if isinstance(text, bytes) else text.encode() for text in texts]
    return [row.decode() for row in function(tf.constant(rows)).numpy()]


def test_valid_utf8_keeps_what_is_valid() -> None:
    texts = ["", "abc", "ünï", "שלום", "\U0001f600", "\t\n\r\x01"]
    assert apply(valid_utf8, *texts) == texts


@pytest.mark.parametrize("damaged", [b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf0\x9f", b"\x00"])
def test_valid_utf8_replaces_what_is_not(damaged: bytes) -> None:
    (result,) = apply(valid_utf8, b"a" + damaged + b"b")
    assert result[0] + result[-1] == "ab"
    assert set(result[1:-1]) == {"\ufffd"}


def test_lower_follows_unicode() -> None:
    assert apply(lower, "ABC", "ÄÖÜ", "ПРИВЕТ", "ΑΣ", "İ", "ß漢") == [
        "abc",
        "äöü",
        "привет",
        "ας",
        "i̇",
        "ß漢",
    ]


@pytest.mark.parametrize("locale", ["tr_TR.UTF-8", pytest.param("lt_LT.UTF-8", marks=pytest.mark.slow)])
def test_lower_is_the_same_in_every_locale(locale: str) -> None:
    run = subprocess.run(
        [sys.executable, "-c", LOWER_SCRIPT],
        env={**os.environ, "LC_ALL": locale, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.strip() == ascii("ii̇ìjį àς")


def test_normalize_does_not_cut_at_nul_when_lowercasing() -> None:
    texts = tf.constant([b"A\x00B"])
    assert normalize(texts, lowercase=True).numpy()[0].decode() == "a\ufffdb"
    assert normalize(texts, lowercase=False).numpy()[0].decode() == "A\ufffdB"


def test_single_spaces_knows_the_white_space_of_python() -> None:
    spaces = [chr(c) for c in range(1, 0x110000) if chr(c).isspace()]
    assert apply(single_spaces, *(f" a{space}{space}b{space}" for space in spaces)) == ["a b"] * len(spaces)


def test_single_spaces_keeps_everything_else() -> None:
    others = [chr(c) for c in range(1, 0x3100) if not chr(c).isspace()]
    assert apply(single_spaces, *others) == others
