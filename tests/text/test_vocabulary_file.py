from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_transformer.errors import InputError
from keras_transformer.text.lookup_tokenizer import format_vocabulary, parse_vocabulary

PATH = Path("vocabulary.txt")
SPECIAL_LINES = b'"[PAD]"\n"[UNK]"\n"[START]"\n"[END]"\n'


def test_line_number_is_token_id() -> None:
    assert format_vocabulary(["a", " ", "é"]) == SPECIAL_LINES + '"a"\n" "\n"é"\n'.encode()


@pytest.mark.parametrize("piece", [" ", "\t", "\n", "\r", "\r\n", "\x0b", "\x85", "\u2028", '"', "\\", "\\n"])
def test_awkward_pieces_survive(piece: str) -> None:
    pieces = ["before", piece, "after"]
    assert parse_vocabulary(PATH, format_vocabulary(pieces)) == pieces


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]))))
def test_every_list_survives(pieces: list[str]) -> None:
    assert parse_vocabulary(PATH, format_vocabulary(pieces)) == pieces


def test_a_file_with_dos_line_ends_is_read() -> None:
    content = format_vocabulary(["a", "b"]).replace(b"\n", b"\r\n")
    assert parse_vocabulary(PATH, content) == ["a", "b"]


@pytest.mark.parametrize(
    ("line", "shown"),
    [(b'"a', "'\"a'"), (b"a", "'a'"), (b"7", "'7'"), (b"", "''"), (b'"\xff"', "\\xff"), (b"[" * 99999, "[[")],
)
def test_a_damaged_line_is_named(line: bytes, shown: str) -> None:
    with pytest.raises(InputError) as error:
        parse_vocabulary(PATH, SPECIAL_LINES + line + b'\n"b"\n')
    assert str(error.value).startswith("vocabulary.txt:5: each line must be a JSON string. Received: ")
    assert shown in str(error.value)
    assert len(str(error.value)) < 200


def test_special_tokens_must_come_first() -> None:
    with pytest.raises(InputError, match=r"vocabulary\.txt must start with .*Received: \('a', 'b'\)"):
        parse_vocabulary(PATH, b'"a"\n"b"\n')
