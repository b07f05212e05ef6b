"""Long texts fall into pieces that fit, and nothing of them is lost."""

# ruff: noqa: RUF001

import functools

import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_transformer.text import CharacterTokenizer, Tokenizer, WhitespaceTokenizer, split_texts

CHARACTERS = CharacterTokenizer.train(["abcdefghij ABC.,!?\n"])
WORDS = WhitespaceTokenizer.train(["a b c d e f. g! A B"])

# Letters, ends, closing marks, white space, what marks a place in between, and whatever else there is.
HARD = st.text(st.sampled_from("abA3.!?…。，！؟।\"')”»  \n\r\t\u2028\u3000\x00\x01\\") | st.characters())


@functools.cache
def splitting(tokenizer: Tokenizer, max_length: int) -> tf.types.experimental.PolymorphicFunction:
    """Return the graph that splits any number of texts."""
    any_number = [tf.TensorSpec([None], tf.string)]
    return tf.function(lambda texts: split_texts(texts, tokenizer, max_length), input_signature=any_number)


def pieces_of(texts: list, tokenizer: Tokenizer, max_length: int) -> list[list[bytes]]:
    """Split texts, and return the pieces and separators of each, which make the text again."""
    found = splitting(tokenizer, max_length)(tf.constant(texts, tf.string, [len(texts)]))
    rows: list[list[bytes]] = [[] for _ in texts]
    for piece, separator, row in zip(*(part.numpy() for part in found), strict=True):
        rows[row] += [piece, separator]
    return rows


@pytest.mark.parametrize(
    "text",
    [
        "It rains.| |The dog sleeps!| |Why?| |I do not know …| |Well.|",
        '"Stop!" he said.| |"Go!"|  |She went (really!).| |« Oui ! »|\n|„Nein.“| |»Gut.«|',
        "It costs 3.5 euros, approx. five dollars.| |Today, z. B. um 3 Uhr, kam J. Smith.| |Er kam.|",
        "A heading|\n\n|A line|\r\n  |The end.| \u2028||",
        "今日は雨です。||犬が寝ています！|\u3000|「はい。」||そうです。|||",
        "ما هذا؟| |هذا كتاب.| |यह किताब है।| |अच्छा।|",
        "U.S. Army, e.g. this.| |Ends here.|",
        "|   \n|begins late.|\n||",
    ],
)
def test_sentences_end_where_a_reader_says_so(text: str) -> None:
    parts = text.split("|")
    # Characters are tokens: a limit of the longest sentence splits no sentence.
    limit = max(map(len, parts[::2])) + 1
    [found] = pieces_of(["".join(parts)], CHARACTERS, limit)
    assert [part.decode() for part in found] == parts


def check(tokenizer: Tokenizer, texts: list[str | bytes], max_length: int) -> None:
    """Split texts in a graph; raise where something is lost, does not fit, or depends on the others."""
    wanted = [text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text for text in texts]
    is_long = tokenizer.ended_ids(tf.constant(wanted, tf.string, [len(wanted)]), max_length)[1].numpy()
    for text, found, long in zip(wanted, pieces_of(wanted, tokenizer, max_length), is_long, strict=True):
        assert b"".join(found) == text
        if not long:
            assert found == [text, b""]
        if len(wanted) > 1:
            assert [found] == pieces_of([text], tokenizer, max_length)
        _, too_long = tokenizer.ended_ids(tf.constant(found[::2]), max_length)
        for piece in tf.boolean_mask(found[::2], too_long).numpy():
            assert not any(space in piece for space in b" \t\n\r")  # one word


TEXTS = st.lists(HARD | st.binary(max_size=30), max_size=3)


@pytest.mark.parametrize("tokenizer", [CHARACTERS, WORDS], ids=["characters", "words"])
@given(texts=TEXTS)
@settings(max_examples=25)
def test_nothing_is_lost_and_pieces_fit(tokenizer: Tokenizer, texts: list[str | bytes]) -> None:
    check(tokenizer, texts, 4)


@pytest.mark.slow
@pytest.mark.parametrize("tokenizer", [CHARACTERS, WORDS], ids=["characters", "words"])
@given(texts=TEXTS, max_length=st.integers(2, 20))
@settings(max_examples=500)
def test_nothing_of_many_texts_is_lost(
    tokenizer: Tokenizer, texts: list[str | bytes], max_length: int
) -> None:
    check(tokenizer, texts, max_length)


def test_a_long_sentence_falls_into_few_pieces_between_words() -> None:
    [found] = pieces_of(["a b c d e f. B a A b a b "], WORDS, 4)
    assert found[::2] == [b"a b c", b"d e f.", b"B a A", b"b a b "]
    [found] = pieces_of(["今日は、雨です、犬が寝ています。"], CHARACTERS, 9)
    assert [part.decode() for part in found[::2]] == ["今日は、雨です、", "犬が寝ています。", ""]


def test_a_long_word_stays_whole() -> None:
    word = b"x" * 100_000
    [found] = pieces_of([b"a " + word + b" b"], CHARACTERS, 5)
    assert found == [b"a", b" ", word, b" ", b"b", b""]


def test_outputs_are_joined_with_the_white_space_of_the_text() -> None:
    texts = tf.constant(["A b.\n\n  a b!", "今日は、雨です。犬が。", "a b"])
    pieces = split_texts(texts, CHARACTERS, 6)

    def joined(outputs: list[str]) -> list[str]:
        return [text.decode() for text in pieces.join(tf.constant(outputs), 3).numpy()]

    assert [piece.decode() for piece in pieces.pieces.numpy()] == [
        "A b.", "a b!", "今日は、", "雨です。", "犬が。", "", "a b",
    ]  # fmt: skip
    assert joined(["C.", "D!", "Today,", "rain.", "A dog.", "", "E"]) == [
        "C.\n\n  D!",
        "Today, rain. A dog. ",
        "E",
    ]
    assert joined(["C.", "D!", "今日，", "雨。", "“犬。”", "", "E"])[1] == "今日，雨。“犬。”"


def test_a_graph_splits_as_python_does() -> None:
    texts = tf.constant(["A b. A b c d e f g!\n" * 3, "", "a"])
    for several in (texts, texts[:0]):
        for actual, wanted in zip(splitting(WORDS, 4)(several), split_texts(several, WORDS, 4), strict=True):
            tf.debugging.assert_equal(actual, wanted)
