"""Words in the graph, with their places in the text."""

import re
import unicodedata

import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_transformer.text import CharacterTokenizer, SubwordTokenizer, encode_words, split_words

TEXTS = ["(in Berlin).", "", "  ", "don't go to U.S-land 3.5 times...", "a\x00b\u3000c", "\U0001f600! x"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("(in Berlin).", ["(", "in", "Berlin", ")", "."]),
        ("don't pay 3.5 to U.S.", ["don't", "pay", "3.5", "to", "U.S", "."]),
        ('"Hi"... -', ['"', "Hi", '"', ".", ".", ".", "-"]),
        ("a\x00b\u3000c\u200b", ["a", "b", "c"]),
        ("\u00e9\u0301t\u00e9 \U0001f600!", ["\u00e9\u0301t\u00e9", "\U0001f600", "!"]),
        ("", []),
        (" \u2028 ", []),
    ],
)
def test_words(text: str, words: list[str]) -> None:
    found = split_words(tf.constant([text]))
    assert [word.decode() for word in found.words.to_list()[0]] == words
    places = zip(found.starts.to_list()[0], found.ends.to_list()[0], strict=True)
    assert [text[start:end] for start, end in places] == words


def plain_words(text: str) -> list[str]:
    """Splits one text character by character."""
    words = []
    for chunk in re.split(r"[\s\x00-\x1f\x7f-\x9f\u200b\ufeff]+", text):
        marks = [unicodedata.category(letter)[0] in "PS" for letter in chunk]
        first = next((n for n, mark in enumerate(marks) if not mark), len(chunk))
        last = len(chunk) - next((n for n, mark in enumerate(reversed(marks)) if not mark), 0)
        words += [*chunk[:first], chunk[first:last], *chunk[max(first, last) :]]
    return [word for word in words if word]


@settings(max_examples=40)
@given(st.lists(st.text(st.sampled_from("ab\u00e9 .-'(\u3000\n\U0001f600\u4e2d$"), max_size=12), min_size=1))
def test_each_text_is_split_as_it_is_alone(texts: list[str]) -> None:
    found = split_words(tf.constant(texts)).words.to_list()
    assert [[word.decode() for word in row] for row in found] == [*map(plain_words, texts)]


def test_separated_tokens_stay() -> None:
    words = split_words(tf.constant(["in Berlin ( U.S. ) ..."]), split_punctuation=False).words
    assert words.to_list() == [[b"in", b"Berlin", b"(", b"U.S.", b")", b"..."]]


def test_a_graph_does_the_same() -> None:
    def places(texts: tf.Tensor) -> list[tf.Tensor]:
        found = split_words(texts)
        return [each.to_tensor() for each in (*found, encode_words(tokenizer, found.words, 9).first_pieces)]

    tokenizer = CharacterTokenizer.train(TEXTS)
    traced = tf.function(places, input_signature=[tf.TensorSpec([None], tf.string)])
    for texts in (TEXTS, TEXTS[1:2], []):
        batch = tf.constant(texts, tf.string, [len(texts)])
        for one, other in zip(traced(batch), places(batch), strict=True):
            assert one.numpy().tolist() == other.numpy().tolist()


def test_words_have_the_ids_of_the_text() -> None:
    texts = ["the quick brown fox jumps", "over the lazy dog", "quick quick"]
    tokenizer = SubwordTokenizer.train(texts, vocabulary_size=40)
    encoded = encode_words(tokenizer, split_words(tf.constant(texts)).words, 50)
    assert encoded.token_ids.numpy().tolist() == tokenizer.padded_ids(texts, 50).numpy().tolist()
    assert not encoded.is_cut.numpy().any()


def test_each_word_has_a_first_piece_up_to_the_limit() -> None:
    tokenizer = CharacterTokenizer(list("abc"))
    words = tf.ragged.constant([["ab", "\u200d", "c"], ["a"], [], ["x" * 2000, "a"]])
    encoded = encode_words(tokenizer, words, 5)
    assert encoded.first_pieces.to_list() == [[0, 2, 3], [0], [], [0]]
    assert encoded.is_cut.numpy().tolist() == [False, False, False, True]
    assert encoded.token_ids.numpy()[0].tolist() == [4, 5, 1, 6, 3]
    assert encode_words(tokenizer, words[:1], 4).first_pieces.to_list() == [[0, 2]]
