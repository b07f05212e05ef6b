"""Pieces of text that together are the translation."""

from typing import Any

import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer.decoding import GreedySearch, TruncationWarning
from keras_transformer.decoding.sampling import SampleSearch
from keras_transformer.decoding.translator import TextStreamer, join_pieces, stream_text
from keras_transformer.text import CharacterTokenizer, SubwordTokenizer, WhitespaceTokenizer

CORPUS = ["A dog runs.", "a cat sits\ton it", "the cat runs", "the dog sits"]
TOKENIZERS = {
    "character": lambda: CharacterTokenizer.train(CORPUS),
    "whitespace": lambda: WhitespaceTokenizer.train(CORPUS),
    "subword": lambda: SubwordTokenizer.train(CORPUS, vocabulary_size=30),
}


@pytest.fixture(scope="module")
def translator(transformer: Any) -> kt.Translator:
    return kt.Translator(
        transformer,
        CharacterTokenizer("abcde"),
        CharacterTokenizer("wxyz"),
        search=GreedySearch(),
        max_source_length=40,
        max_target_length=6,
    )


class ByteTokenizer:
    """Stands for a tokenizer whose tokens are bytes: those that are no character are replaced."""

    def detokenize(self, token_ids: list[list[int]]) -> Any:
        texts = [bytes(row).decode("utf-8", "replace").encode() for row in token_ids]
        return type("Texts", (), {"numpy": lambda self: texts})()


def steps(token_ids: Any) -> list[np.ndarray]:
    return [np.array([token_id], "int32") for token_id in token_ids]


def test_a_text_that_is_cut_off_says_so(translator: kt.Translator) -> None:
    with pytest.warns(TruncationWarning, match="longer than the translator's 40 tokens"):
        list(stream_text(translator, "a" * 40))
    list(stream_text(translator, "a" * 39))


@pytest.mark.filterwarnings("ignore::keras_transformer.decoding.TruncationWarning")
def test_the_pieces_are_the_translation(translator: kt.Translator) -> None:
    streamer, most = TextStreamer(translator), 0
    for text in ["abc", "\ud800", "ab" * 50, ""]:
        pieces = list(streamer(text))
        assert "".join(pieces) == translator.translate([text])[0]
        assert all(pieces)
        most = max(most, len(pieces))
    assert most > 1, "the pieces should come one by one"


def test_an_answer_can_be_sampled(translator: kt.Translator) -> None:
    pieces = [list(stream_text(translator, "cab e", SampleSearch(1.5, seed=4))) for _ in range(2)]
    assert pieces[0] == pieces[1]
    assert set("".join(pieces[0])) <= set("wxyz")


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_pieces_of_every_tokenizer_are_the_text(kind: str) -> None:
    tokenizer = TOKENIZERS[kind]()
    rng = np.random.default_rng(7)
    for length in (1, 5, 11, 11, 11):
        token_ids = rng.integers(0, tokenizer.vocabulary_size, length).tolist()
        expected = tokenizer.detokenize([token_ids]).numpy()[0].decode()
        assert "".join(join_pieces(steps(token_ids), tokenizer)) == expected


def test_a_character_comes_when_it_is_complete() -> None:
    pieces = list(join_pieces(steps("aé☃b".encode()), ByteTokenizer()))
    assert pieces == ["a", "é", "☃", "b"]


def test_bytes_that_never_become_a_character_come_last() -> None:
    pieces = list(join_pieces(steps(b"a\xe2\x98"), ByteTokenizer()))
    assert pieces == ["a", "\N{REPLACEMENT CHARACTER}"]


def test_what_is_no_text_is_refused(translator: kt.Translator) -> None:
    with pytest.raises(TypeError, match=r"`text` must be a string\. Received: text=\['a'\]\."):
        stream_text(translator, ["a"])


def test_a_limit_that_is_changed_takes_effect(translator: kt.Translator) -> None:
    streamer, before = TextStreamer(translator), translator.max_target_length
    assert "".join(streamer("abc")) == translator.translate(["abc"])[0]
    translator.max_target_length = 3
    try:
        assert "".join(streamer("abc")) == translator.translate(["abc"])[0]
    finally:
        translator.max_target_length = before
