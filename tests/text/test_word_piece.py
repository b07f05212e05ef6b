"""BERT's WordPiece in the graph; the tests of pretrained encoders compare it with `transformers`."""

import functools
from pathlib import Path

import numpy as np
import pytest

from keras_transformer.text import BertTokenizer, Tokenizer

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
PIECES = (*SPECIAL, "[MASK]", "un", "##aff", "##able", "cafe", "Cafe", "caf\u00e9", "!", "\u6f22", "a", "##b")


@functools.cache
def make(**options: bool) -> BertTokenizer:
    """Make a tokenizer whose ids are those of the list, since the special tokens come first in it."""
    special = tuple((name,) for name in SPECIAL)
    in_text = (*SPECIAL[1:], "[MASK]")
    spec = BertTokenizer.Spec(
        pieces=PIECES, special=special, prefix=("[CLS]",), special_in_text=in_text, **options
    )
    return BertTokenizer(spec)


def names(tokenizer: BertTokenizer, text: str) -> list[str]:
    return [PIECES[number] for number in np.asarray(tokenizer.padded_ids([text], 200))[0]]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", []),
        ("Unaffable!", ["un", "##aff", "##able", "!"]),
        ("CAF\u00c9 cafe\u0301", ["cafe", "cafe"]),
        ("a\u6f22ab", ["a", "\u6f22", "a", "##b"]),
        ("unx \U0001f600", ["[UNK]", "[UNK]"]),
        ("\x00a\u200bb\x07", ["a", "##b"]),
        ("a[MASK]a [SEP] [mask]", ["a", "[MASK]", "a", "[SEP]", "[UNK]", "[UNK]", "[UNK]"]),
        ("a" + "b" * 99, ["a", *["##b"] * 99]),
        ("a" + "b" * 100, ["[UNK]"]),
    ],
)
def test_pieces(text: str, wanted: list[str]) -> None:
    assert names(make(), text) == ["[CLS]", *wanted, "[SEP]"]


def test_options() -> None:
    assert names(make(lowercase=False, strip_accents=False), "Cafe caf\u00e9")[1:-1] == ["Cafe", "caf\u00e9"]
    assert names(make(lowercase=False), "Cafe\u0301")[1:-1] == ["Cafe"]
    assert names(make(split_on_cjk=False), "a\u6f22a")[1:-1] == ["[UNK]"]


def test_it_is_saved_and_joins_pieces(tmp_path: Path) -> None:
    tokenizer = make()
    tokenizer.save(tmp_path)
    again = Tokenizer.load(tmp_path)
    assert again.fingerprint() == tokenizer.fingerprint() != make(split_on_cjk=False).fingerprint()
    assert again.round_trip(["Unaffable  cafe !"]) == ["unaffable cafe !"]
