"""Between texts and arrays."""

import numpy as np
import pytest

from keras_transformer.decoding.log_probabilities import LOWEST_SCORE
from keras_transformer.decoding.text_translator import (
    Translation,
    make_alignment,
    make_hypotheses,
    started,
    token_ids_of,
    utf8,
)
from keras_transformer.text import CharacterTokenizer


@pytest.mark.parametrize(
    ("max_length", "rows", "is_cut"),
    [
        (5, [[4, 5, 4, 3], [4, 3, 0, 0], [3, 0, 0, 0]], [False] * 3),
        (4, [[4, 5, 4, 3], [4, 3, 0, 0], [3, 0, 0, 0]], [False] * 3),
        (3, [[4, 5, 3], [4, 3, 0], [3, 0, 0]], [True, False, False]),
        (2, [[4, 3], [4, 3], [3, 0]], [True, False, False]),
    ],
)
def test_rows_are_ended_and_those_too_long_are_marked(
    max_length: int, rows: list, is_cut: list[bool]
) -> None:
    token_ids, cut = token_ids_of(["aba", "a", ""], CharacterTokenizer("ab"), max_length)
    np.testing.assert_array_equal(token_ids, rows)
    assert cut.tolist() == is_cut


def test_half_a_surrogate_is_an_unknown_token() -> None:
    assert utf8(["a\ud800"]) == [b"a\xed\xa0\x80"]
    token_ids, _ = token_ids_of(["a\ud800"], CharacterTokenizer("ab"), 9)
    assert set(token_ids[0, 1:-1]) == {1}


def test_the_start_token_comes_first() -> None:
    np.testing.assert_array_equal(started(np.array([[4, 3]], "int32")), [[2, 4, 3]])


def test_places_without_a_sequence_are_left_out() -> None:
    texts, scores = np.array([b"x", b"", b""], object), np.array([-1.0, -2.0, LOWEST_SCORE], "float32")
    assert make_hypotheses("a", texts, scores) == [Translation("x", -1.0), Translation("", -2.0)]
    assert make_hypotheses("", texts, scores) == [Translation("", 0.0)]


def test_an_alignment_is_cut_to_its_tokens() -> None:
    attention = np.arange(12, dtype="float32").reshape(3, 4)
    source, output = np.array([b"a", b"[END]", b"", b""]), np.array(["ä".encode(), b"[END]", b""])
    alignment = make_alignment("a", "ä".encode(), -1.0, source, output, attention)
    assert (alignment.text, alignment.score) == ("ä", -1.0)
    assert (alignment.source_tokens, alignment.output_tokens) == (("a", "[END]"), ("ä", "[END]"))
    np.testing.assert_array_equal(alignment.attention, [[0, 1], [4, 5]])
    assert make_alignment("", b"x", -1.0, source, output, attention).output_tokens == ()
