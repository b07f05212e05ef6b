from pathlib import Path

import pytest

from keras_transformer.errors import InputError
from keras_transformer.text import CharacterTokenizer


def test_one_token_per_code_point() -> None:
    tokenizer = CharacterTokenizer("ae\u0301漢\U0001f600")
    assert tokenizer.tokenize(["e\u0301漢", "\U0001f600a?"]).to_list() == [[5, 6, 7], [8, 4, 1]]


def test_lowercase_and_spaces_are_options() -> None:
    plain = CharacterTokenizer("aA \t")
    assert plain.tokenize([" A\t\ta "]).to_list() == [[6, 5, 7, 7, 4, 6]]
    tidy = CharacterTokenizer("a ", lowercase=True, normalize_spaces=True)
    assert tidy.tokenize([" A\t\u3000a "]).to_list() == [[4, 5, 4]]
    assert tidy.options == {"lowercase": True, "normalize_spaces": True}


def test_training_normalizes_as_tokenizing_does() -> None:
    texts = ["İI\u00a0ÄB", " ab\t\n"]
    tokenizer = CharacterTokenizer.train(texts, lowercase=True, normalize_spaces=True)
    assert set(tokenizer.vocabulary) == set("i\u0307äab ")
    assert 1 not in tokenizer.tokenize(texts).flat_values.numpy()


def test_training_leaves_out_what_is_no_text() -> None:
    assert CharacterTokenizer.train(["a\0b\ud800\ufffd"]).vocabulary == ("a", "b")


def test_training_keeps_the_most_frequent() -> None:
    assert CharacterTokenizer.train(["abbccc"], max_vocabulary_size=6).vocabulary == ("c", "b")


def test_pieces_must_be_single_characters() -> None:
    with pytest.raises(ValueError, match=r"must hold single characters\. Received: 'ab'\."):
        CharacterTokenizer(["a", "ab"])


def test_white_space_survives_the_file(tmp_path: Path) -> None:
    vocabulary = tuple(" \t\n\r\x0b\x0c\x85\u2028\u3000\\\"'")
    CharacterTokenizer(vocabulary).save(tmp_path)
    assert CharacterTokenizer.load(tmp_path).vocabulary == vocabulary


def test_options_survive_the_file(tmp_path: Path) -> None:
    CharacterTokenizer("a", lowercase=True, normalize_spaces=True).save(tmp_path)
    assert CharacterTokenizer.load(tmp_path).tokenize([" A "]).to_list() == [[4]]


def test_a_file_that_repeats_an_entry_is_named(tmp_path: Path) -> None:
    CharacterTokenizer("ab").save(tmp_path)
    path = tmp_path / "vocabulary.txt"
    path.write_text(path.read_text().replace('"b"', '"a"'))
    with pytest.raises(InputError, match=rf"^{path} is damaged\. .*not repeat a piece\. Received: 'a' twice"):
        CharacterTokenizer.load(tmp_path)


def test_a_file_without_entries_is_named(tmp_path: Path) -> None:
    CharacterTokenizer("a").save(tmp_path)
    path = tmp_path / "vocabulary.txt"
    path.write_text(path.read_text().replace('"a"\n', ""))
    with pytest.raises(InputError, match=rf"^{path} is damaged\. .*must not be empty\. Received: \[\]"):
        CharacterTokenizer.load(tmp_path)
