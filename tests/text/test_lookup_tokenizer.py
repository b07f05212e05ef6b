import pytest
import tensorflow as tf

from keras_transformer.text.lookup_tokenizer import CharacterTokenizer, check_vocabulary, is_usable


@pytest.mark.parametrize(
    ("vocabulary", "message"),
    [
        ([], r"must not be empty\. Received: \[\]"),
        (["a", "b", "a"], r"must not repeat a piece\. Received: 'a' twice"),
        (["a", ""], r"must hold pieces that a text can have\. Received: ''"),
        (["[END]"], r"must hold pieces that a text can have\. Received: '\[END\]'"),
        (["\ufffd"], r"must hold pieces that a text can have\. Received: '\ufffd'"),
        (["\0"], r"must hold pieces that a text can have\. Received: '\\x00'"),
        (["\ud800"], r"must hold pieces that a text can have\. Received: '\\ud800'"),
    ],
)
def test_unusable_vocabularies_are_refused(vocabulary: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_vocabulary(vocabulary)


def test_pieces_must_be_strings() -> None:
    with pytest.raises(TypeError, match=r"must hold strings\. Received: 7\."):
        check_vocabulary(["a", 7])


@pytest.mark.parametrize("piece", ["a", " ", "\n", "[end]", "\u200d", "\U0001f600"])
def test_usable_pieces(piece: str) -> None:
    assert is_usable(piece)


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
