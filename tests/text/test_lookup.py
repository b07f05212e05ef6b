"""Tokenizers of characters and words: their pieces, training and vocabulary files."""

import unicodedata
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from keras_transformer.errors import InputError
from keras_transformer.text import CharacterTokenizer, Tokenizer, WhitespaceTokenizer


def test_one_token_per_code_point() -> None:
    tokenizer = CharacterTokenizer("ae\u0301漢\U0001f600")
    assert tokenizer.tokenize(["e\u0301漢", "\U0001f600a?"]).to_list() == [[5, 6, 7], [8, 4, 1]]


@pytest.mark.parametrize(
    "text",
    ["3 août 2023", "Tôi đi học ở Huế", "한국어 학교", "ΐ ᾧ", "क़ का", "plain", "\u0301a"],
)
@pytest.mark.parametrize("kind", [CharacterTokenizer, WhitespaceTokenizer])
def test_letters_are_composed_as_the_vocabulary_has_them(kind: Any, text: str) -> None:
    composed, separate = (unicodedata.normalize(form, text) for form in ("NFC", "NFD"))
    tokenizer = kind.train([composed, "é"])
    wanted = tokenizer.tokenize([composed, "", "x"]).to_list()
    assert wanted[0].count(1) == 0
    assert tokenizer.tokenize([separate, "", "x"]).to_list() == wanted
    assert tf.function(tokenizer.tokenize)(tf.constant([separate, "", "x"])).to_list() == wanted
    # A vocabulary of separate marks leaves them so.
    assert kind.train([separate]).round_trip([separate]) == [separate]


def test_accents_of_any_order_are_composed() -> None:
    tokenizer = CharacterTokenizer("e\u00ea\u1ec7")
    texts = ["\u1ec7", "e\u0323\u0302", "e\u0302\u0323", "\u00ea\u0323", "\u1eb9\u0302"]
    assert tokenizer.tokenize(texts).to_list() == [[6]] * 5


def test_a_text_is_composed_alone() -> None:
    tokenizer = CharacterTokenizer("e\u00e9")
    assert tokenizer.tokenize(["e", "\u0301", "e\u0301"]).to_list() == [[4], [1], [5]]


def test_lowercase_and_spaces_are_options() -> None:
    plain = CharacterTokenizer("aA \t")
    assert plain.tokenize([" A\t\ta "]).to_list() == [[6, 5, 7, 7, 4, 6]]
    tidy = CharacterTokenizer("a ", lowercase=True, normalize_spaces=True)
    assert tidy.tokenize([" A\t\u3000a "]).to_list() == [[4, 5, 4]]
    assert tidy.options == {"lowercase": True, "normalize_spaces": True}


def test_training_of_characters_normalizes_as_tokenizing_does() -> None:
    texts = ["İI\u00a0ÄB", " ab\t\n"]
    tokenizer = CharacterTokenizer.train(texts, lowercase=True, normalize_spaces=True)
    assert set(tokenizer.vocabulary) == set("i\u0307äab ")
    assert 1 not in tokenizer.tokenize(texts).flat_values.numpy()


def test_training_leaves_out_what_is_no_text() -> None:
    assert CharacterTokenizer.train(["a\0b\ud800\ufffd"]).vocabulary == ("a", "b")


def test_training_of_characters_keeps_the_most_frequent() -> None:
    assert CharacterTokenizer.train(["abbccc"], max_vocabulary_size=6).vocabulary == ("c", "b")


def test_pieces_must_be_single_characters() -> None:
    with pytest.raises(ValueError, match=r"must hold single characters\. Received: 'ab'\."):
        CharacterTokenizer(["a", "ab"])


def test_white_space_survives_the_file(tmp_path: Path) -> None:
    vocabulary = tuple(" \t\n\r\x0b\x0c\x85\u2028\u3000\\\"'")
    CharacterTokenizer(vocabulary).save(tmp_path)
    assert Tokenizer.load(tmp_path).vocabulary == vocabulary


def test_options_survive_the_file(tmp_path: Path) -> None:
    CharacterTokenizer("a", lowercase=True, normalize_spaces=True).save(tmp_path)
    assert Tokenizer.load(tmp_path).tokenize([" A "]).to_list() == [[4]]


def test_a_file_that_repeats_an_entry_is_named(tmp_path: Path) -> None:
    CharacterTokenizer("ab").save(tmp_path)
    path = tmp_path / "vocabulary.txt"
    path.write_text(path.read_text().replace('"b"', '"a"'))
    with pytest.raises(InputError, match=rf"^{path} is damaged\. .*not repeat a piece\. Received: 'a' twice"):
        Tokenizer.load(tmp_path)


def test_a_file_without_entries_is_named(tmp_path: Path) -> None:
    CharacterTokenizer("a").save(tmp_path)
    path = tmp_path / "vocabulary.txt"
    path.write_text(path.read_text().replace('"a"\n', ""))
    with pytest.raises(InputError, match=rf"^{path} is damaged\. .*must not be empty\. Received: \[\]"):
        Tokenizer.load(tmp_path)


def test_one_token_per_word() -> None:
    tokenizer = WhitespaceTokenizer(["AA", "B", "ER"])
    assert tokenizer.tokenize(["AA B\u3000ER", "", "\tB  X "]).to_list() == [[4, 5, 6], [], [5, 1]]


def test_words_are_joined_with_one_space() -> None:
    tokenizer = WhitespaceTokenizer(["AA", "B"])
    assert tokenizer.detokenize([[4, 5, 3], [0, 0, 0]]).numpy().tolist() == [b"AA B", b""]


def test_a_part_of_a_word_is_unknown() -> None:
    assert WhitespaceTokenizer(["AA"]).tokenize(["A AAA \0AA"]).to_list() == [[1, 1, 1]]


def test_training_finds_the_words() -> None:
    tokenizer = WhitespaceTokenizer.train(["AA B", "b [END]", "a\ud800"], lowercase=True)
    assert tokenizer.vocabulary == ("b", "[end]", "aa")
    assert tokenizer.tokenize(["B AA"]).to_list() == [[4, 6]]


def test_names_of_special_tokens_are_unknown_words() -> None:
    tokenizer = WhitespaceTokenizer.train(["a [END]"])
    assert tokenizer.vocabulary == ("a",)
    assert tokenizer.tokenize(["a [END] [PAD]"]).to_list() == [[4, 1, 1]]


@pytest.mark.parametrize("word", ["a b", " a", "a\u2028", " ", ""])
def test_pieces_must_be_single_words(word: str) -> None:
    with pytest.raises(ValueError, match=r"must hold single words\. Received: "):
        WhitespaceTokenizer(["a", word])


def test_vocabulary_survives_the_file(tmp_path: Path) -> None:
    WhitespaceTokenizer(['"', "\\n", "é"], lowercase=True).save(tmp_path)
    loaded = Tokenizer.load(tmp_path)
    assert (loaded.vocabulary, loaded.lowercase) == (('"', "\\n", "é"), True)


@pytest.mark.parametrize(
    ("vocabulary", "message"),
    [
        ([], r"must not be empty\. Received: \[\]"),
        (["a", "b", "a"], r"must not repeat a piece\. Received: 'a' twice"),
        (["[END]"], r"must hold pieces that a text can have\. Received: '\[END\]'"),
        (["\ufffd"], r"must hold pieces that a text can have\. Received: '\ufffd'"),
        (["\0"], r"must hold pieces that a text can have\. Received: '\\x00'"),
        (["\ud800"], r"must hold pieces that a text can have\. Received: '\\ud800'"),
    ],
)
def test_unusable_vocabularies_are_refused(vocabulary: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        WhitespaceTokenizer(vocabulary)


def test_pieces_must_be_strings() -> None:
    with pytest.raises(TypeError, match=r"must hold strings\. Received: 7\."):
        WhitespaceTokenizer(["a", 7])


@pytest.mark.parametrize("piece", ["a", " ", "\n", "\u200d", "\U0001f600"])
def test_usable_pieces(piece: str) -> None:
    assert CharacterTokenizer([piece]).vocabulary == (piece,)


def test_capitals_and_lower_case_exclude_each_other() -> None:
    with pytest.raises(ValueError, match=r"must be lower case with `lowercase`\. Received: 'É'\."):
        CharacterTokenizer("aÉ", lowercase=True)
    assert CharacterTokenizer("aé", lowercase=True).tokenize(["AÉ"]).to_list() == [[4, 5]]


def test_ids_follow_the_order_of_the_vocabulary() -> None:
    tokenizer = CharacterTokenizer("xyz")
    assert tokenizer.vocabulary == ("x", "y", "z")
    assert tokenizer.vocabulary_size == 7
    assert tokenizer.tokenize(["zyxw"]).to_list() == [[6, 5, 4, 1]]
    assert tokenizer.tokens(tf.constant([[4, 6]])).numpy().tolist() == [[b"x", b"z"]]


def train(texts: list[str], max_vocabulary_size: int | None = None) -> tuple[str, ...]:
    return WhitespaceTokenizer.train(texts, max_vocabulary_size=max_vocabulary_size).vocabulary


def test_most_frequent_comes_first_and_ties_are_sorted() -> None:
    assert train(["c b", "a b", "é"]) == ("b", "a", "c", "é")


def test_the_order_of_the_corpus_does_not_matter() -> None:
    texts = ["c b", "a b", "d"]
    assert train(texts) == train(texts[::-1])


def test_the_limit_counts_special_tokens() -> None:
    assert train(["c b", "a b"], 6) == ("b", "a")


@pytest.mark.parametrize("size", [4, 0, -1])
def test_a_limit_without_room_is_refused(size: int) -> None:
    message = rf"must exceed the 4 special tokens\. Received: max_vocabulary_size={size}\."
    with pytest.raises(ValueError, match=message):
        train(["a"], size)


@pytest.mark.parametrize("texts", [[], [""], ["[END]", "\ufffd"]])
def test_a_corpus_without_text_is_named(texts: list[str]) -> None:
    with pytest.raises(InputError, match=r"the corpus holds no text\. Received: 0 pieces\."):
        train(texts)


def test_a_corpus_may_be_a_generator_of_any_length() -> None:
    assert len(train(str(number) for number in range(2500))) == 2500


def test_one_string_is_no_corpus() -> None:
    with pytest.raises(TypeError, match=r"`texts` must be several strings\. Received: 'abc'\."):
        train("abc")


SPECIAL_LINES = b'"[PAD]"\n"[UNK]"\n"[START]"\n"[END]"\n'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The vocabulary file of a saved tokenizer."""
    CharacterTokenizer(["a", " ", "é"]).save(tmp_path)
    return tmp_path / "vocabulary.txt"


def test_line_number_is_token_id(path: Path) -> None:
    assert path.read_bytes() == SPECIAL_LINES + '"a"\n" "\n"é"\n'.encode()


@given(st.sets(st.characters(exclude_categories=["Cs"], exclude_characters="\0\ufffd"), min_size=1))
def test_every_vocabulary_survives_the_file(pieces: set[str]) -> None:
    vocabulary = tuple(sorted(pieces))
    with TemporaryDirectory() as directory:
        CharacterTokenizer(vocabulary).save(directory)
        assert Tokenizer.load(directory).vocabulary == vocabulary


def forget_checksum(path: Path) -> None:
    (path.parent / "tokenizer.json").write_text('{"kind": "character"}')


def test_a_file_with_dos_line_ends_is_read(path: Path) -> None:
    forget_checksum(path)
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert Tokenizer.load(path.parent).vocabulary == ("a", " ", "é")


@pytest.mark.parametrize(
    ("line", "shown"),
    [(b'"a', "'\"a'"), (b"a", "'a'"), (b"7", "'7'"), (b"", "''"), (b'"\xff"', "\\xff"), (b"[" * 99999, "[[")],
)
def test_a_damaged_line_is_named(path: Path, line: bytes, shown: str) -> None:
    path.write_bytes(SPECIAL_LINES + line + b'\n"b"\n')
    with pytest.raises(InputError) as error:
        Tokenizer.load(path.parent)
    wanted = f"{path} is damaged. Line 5 must be a JSON string. Received: "
    assert str(error.value).startswith(wanted)
    assert shown in str(error.value)
    assert len(str(error.value)) < len(wanted) + 100


def test_special_tokens_must_come_first(path: Path) -> None:
    path.write_bytes(b'"a"\n"b"\n')
    with pytest.raises(InputError, match=r"vocabulary\.txt is damaged\. It must start with .*: \('a', 'b'\)"):
        Tokenizer.load(path.parent)
