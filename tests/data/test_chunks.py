"""Pairs that are tokenized chunk by chunk."""

from typing import Any

import pytest
import tensorflow as tf

from keras_transformer.data.streaming import EncodedChunks
from keras_transformer.errors import InputError
from keras_transformer.text import CharacterTokenizer

PAIRS = [("abc", "de"), ("a", "bcd"), ("e" * 9, "g"), ("h", ""), ("ab", "cd")]


def chunks_of(
    pairs: Any, tokenizer: CharacterTokenizer, chunk_size: int = 2, limit: int = 5
) -> EncodedChunks:
    limits = {"max_source_length": limit, "max_target_length": limit}
    return EncodedChunks(pairs, tokenizer, tokenizer, chunk_size=chunk_size, **limits)


def test_each_iteration_gives_all_chunks(tokenizer: CharacterTokenizer) -> None:
    chunks = chunks_of(lambda: iter(PAIRS), tokenizer)
    for _ in range(2):
        read = [(chunk.source.to_list(), chunk.target.to_list()) for chunk in chunks]
        # The empty pair is no pair; the long one counts in its chunk and is left out.
        assert read == [([[4, 5, 6], [4]], [[7, 8], [5, 6, 7]]), ([[4, 5]], [[6, 7]])]


def test_a_chunk_without_a_pair_that_fits_is_left_out(tokenizer: CharacterTokenizer) -> None:
    pairs = [("a", "b"), ("a" * 9, "b"), ("b", "a")]
    assert [len(chunk) for chunk in chunks_of(pairs, tokenizer, chunk_size=1)] == [1, 1]


def test_blank_texts_are_left_out_whatever_they_come_in(tokenizer: CharacterTokenizer) -> None:
    pairs = [("\u00a0", "b"), ("ab", "cd"), ("\u3000", "a")]
    dataset = tf.data.Dataset.from_tensor_slices(tuple(map(list, zip(*pairs, strict=True))))
    for source in (pairs, dataset):
        assert [chunk.source.to_list() for chunk in chunks_of(source, tokenizer)] == [[[4, 5]]]


def test_no_pair_at_all_is_an_error(tokenizer: CharacterTokenizer) -> None:
    with pytest.raises(InputError, match="at least one pair"):
        list(chunks_of([("", "b")], tokenizer))


def test_the_description_tells_what_decides_the_chunks(tokenizer: CharacterTokenizer) -> None:
    descriptions = [
        chunks_of(PAIRS, tokenizer).description,
        chunks_of(PAIRS[:1], tokenizer).description,
        chunks_of(PAIRS, tokenizer, chunk_size=3).description,
        chunks_of(PAIRS, tokenizer, limit=6).description,
        chunks_of(PAIRS, CharacterTokenizer(["x"])).description,
    ]
    assert [description == descriptions[0] for description in descriptions] == [
        True,
        True,
        False,
        False,
        False,
    ]
