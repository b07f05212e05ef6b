import json
from pathlib import Path

import pytest

from keras_transformer.errors import InputError
from keras_transformer.text.tokenizer import (
    check_vocabulary_hash,
    read_flags,
    read_options,
    write_tokenizer,
)

ABC_SHA256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    write_tokenizer(tmp_path / "saved", "v.txt", b"abc", {"kind": "k", "lowercase": True})
    return tmp_path / "saved"


def test_both_files_are_written(directory: Path) -> None:
    assert sorted(path.name for path in directory.iterdir()) == ["tokenizer.json", "v.txt"]
    assert (directory / "v.txt").read_bytes() == b"abc"
    assert read_options(directory) == {
        "kind": "k",
        "lowercase": True,
        "vocabulary_sha256": ABC_SHA256,
    }


def test_flags_are_the_options_of_the_constructor(directory: Path) -> None:
    assert read_flags(directory, "k", ("lowercase", "other")) == {"lowercase": True}


def test_another_kind_is_refused(directory: Path) -> None:
    with pytest.raises(InputError, match=r"tokenizer\.json: kind must be 'm'\. Received: 'k'\."):
        read_flags(directory, "m", ("lowercase",))


def test_an_unknown_option_is_named(directory: Path) -> None:
    with pytest.raises(InputError, match=r"options must be among \('a',\)\. Received: 'lowercase'\."):
        read_flags(directory, "k", ("a",))


def test_an_option_must_be_a_boolean(directory: Path) -> None:
    (directory / "tokenizer.json").write_text(json.dumps({"kind": "k", "lowercase": "no"}))
    with pytest.raises(InputError, match=r"lowercase must be true or false\. Received: 'no'\."):
        read_flags(directory, "k", ("lowercase",))


@pytest.mark.parametrize("content", [b"{", b"\xff", b"{'a': 1}", b"[" * 99999])
def test_options_must_be_json(directory: Path, content: bytes) -> None:
    (directory / "tokenizer.json").write_bytes(content)
    with pytest.raises(InputError, match=r"saved/tokenizer\.json must hold JSON\. Received: "):
        read_options(directory)


def test_options_must_be_an_object(directory: Path) -> None:
    (directory / "tokenizer.json").write_text("[1]")
    with pytest.raises(InputError, match=r"must hold a JSON object\. Received: \[1\]\."):
        read_options(directory)


def test_missing_options_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"Cannot read .*tokenizer\.json: No such file"):
        read_options(tmp_path)


def test_a_changed_vocabulary_is_refused(directory: Path) -> None:
    check_vocabulary_hash(directory, "v.txt", b"abc")
    with pytest.raises(InputError, match=rf"v\.txt is damaged: SHA-256 must be {ABC_SHA256}\. Received: "):
        check_vocabulary_hash(directory, "v.txt", b"abd")


def test_options_without_a_hash_accept_any_vocabulary(directory: Path) -> None:
    (directory / "tokenizer.json").write_text('{"kind": "k"}')
    check_vocabulary_hash(directory, "v.txt", b"other")
