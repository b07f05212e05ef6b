import logging

import numpy as np
import pytest

from keras_transformer.data import EncodedPairs
from keras_transformer.errors import InputError
from keras_transformer.text import CharacterTokenizer
from keras_transformer.types import SPECIAL_IDS

PAIRS = [("ab", "c"), ("abcde", "cd"), ("a", "bcdefg"), ("abcdef", "abcdef"), ("", "a")]


def test_token_ids_without_special_tokens(tokenizer: CharacterTokenizer) -> None:
    encoded = EncodedPairs.encode(PAIRS, tokenizer, tokenizer)
    assert encoded.source.to_list() == [[4, 5], [4, 5, 6, 7, 8], [4], [4, 5, 6, 7, 8, 9], []]
    assert encoded.target.to_list() == [[6], [6, 7], [5, 6, 7, 8, 9, 10], [4, 5, 6, 7, 8, 9], [4]]
    assert encoded.source.dtype == encoded.target.dtype == "int32"
    assert len(encoded) == 5
    assert encoded.num_dropped == 0


def test_lengths_are_those_of_each_side_with_its_special_token(tokenizer: CharacterTokenizer) -> None:
    lengths = EncodedPairs.encode(PAIRS, tokenizer, tokenizer).lengths()
    np.testing.assert_array_equal(lengths, [[3, 2], [6, 3], [2, 7], [7, 7], [1, 2]])


def test_a_lone_surrogate_is_an_unknown_character(tokenizer: CharacterTokenizer) -> None:
    encoded = EncodedPairs.encode([("a\ud800b", "c")], tokenizer, tokenizer)
    [[first, *unknown, last]] = encoded.source.to_list()
    assert (first, last) == (4, 5)
    assert set(unknown) == {SPECIAL_IDS.unknown}


def test_uses_a_tokenizer_for_each_side(tokenizer: CharacterTokenizer) -> None:
    other = CharacterTokenizer(["c", "b", "a"])
    encoded = EncodedPairs.encode([("ab", "ab")], tokenizer, other)
    assert encoded.source.to_list() == [[4, 5]]
    assert encoded.target.to_list() == [[6, 5]]


def test_drops_counts_and_logs_what_is_too_long(
    tokenizer: CharacterTokenizer, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        encoded = EncodedPairs.encode(PAIRS, tokenizer, tokenizer, max_source_length=5, max_target_length=4)
    assert encoded.source.to_list() == [[4, 5], []]
    assert encoded.target.to_list() == [[6], [4]]
    counts = (encoded.num_dropped, encoded.num_dropped_source, encoded.num_dropped_target)
    assert counts == (3, 2, 2)
    message = (
        "Dropped 3 of 5 pairs (60.0 %) as too long: 2 sources over 5 tokens, 2 targets over 4 tokens."
        " That is more than 5 %: are the limits intended?"
    )
    assert caplog.messages == ["1 of 5 pairs have no text on one side, and are kept.", message]


def test_limits_count_special_tokens(tokenizer: CharacterTokenizer, caplog: pytest.LogCaptureFixture) -> None:
    pair = [("abcd", "efg")]
    assert len(EncodedPairs.encode(pair, tokenizer, tokenizer, max_source_length=5, max_target_length=4)) == 1
    assert not caplog.records
    with pytest.raises(InputError):
        EncodedPairs.encode(pair, tokenizer, tokenizer, max_source_length=4, max_target_length=4)
    with pytest.raises(InputError):
        EncodedPairs.encode(pair, tokenizer, tokenizer, max_source_length=5, max_target_length=3)


def test_many_pairs_are_tokenized_as_a_few_are(tokenizer: CharacterTokenizer) -> None:
    """Texts are tokenized in chunks, of which this takes three."""
    few = EncodedPairs.encode(PAIRS, tokenizer, tokenizer)
    many = EncodedPairs.encode(PAIRS * 4000, tokenizer, tokenizer)
    assert many.source.to_list() == few.source.to_list() * 4000
    assert many.target.to_list() == few.target.to_list() * 4000


@pytest.mark.parametrize("wrong", [("a", float("nan")), ("a", None), ("a", "b", "c"), "ab", ("a",)])
def test_what_is_no_pair_is_named(tokenizer: CharacterTokenizer, wrong: object) -> None:
    assert len(EncodedPairs.encode([("a", "b"), ["c", b"d"]], tokenizer, tokenizer)) == 2
    with pytest.raises(
        TypeError, match=r"Each pair must be a tuple or list of two strings\. Received: pairs\[1\]="
    ):
        EncodedPairs.encode([("a", "b"), wrong], tokenizer, tokenizer)


def test_every_pair_too_long(tokenizer: CharacterTokenizer) -> None:
    message = "Every pair is too long. Received: 2 pairs, 2 sources over 3 tokens, 0 targets over 256 tokens"
    with pytest.raises(InputError, match=message):
        EncodedPairs.encode([("abc", "a"), ("abcd", "b")], tokenizer, tokenizer, max_source_length=3)


def test_no_pairs(tokenizer: CharacterTokenizer) -> None:
    with pytest.raises(InputError, match=r"at least one pair\. Received: 0 pairs"):
        EncodedPairs.encode([], tokenizer, tokenizer)


def test_limit_out_of_range(tokenizer: CharacterTokenizer) -> None:
    with pytest.raises(ValueError, match=r"at least 2.*max_source_length=256, max_target_length=1"):
        EncodedPairs.encode(PAIRS, tokenizer, tokenizer, max_target_length=1)
