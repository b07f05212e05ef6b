"""Source texts as the encoder reads them."""

import pytest
import tensorflow as tf

from keras_transformer.text import CharacterTokenizer
from keras_transformer.text.tokenizer import source_token_ids

TOKENIZER = CharacterTokenizer(["a", "b"])


def test_rows_end_and_are_padded() -> None:
    token_ids = source_token_ids(tf.constant(["ab", "", "b"]), TOKENIZER, 10)
    assert token_ids.dtype == tf.int32
    assert token_ids.numpy().tolist() == [[4, 5, 3], [3, 0, 0], [5, 3, 0]]


@pytest.mark.parametrize("limit", [2, 3])
def test_a_long_row_is_cut_and_still_ends(limit: int) -> None:
    [row] = source_token_ids(tf.constant(["ababab"]), TOKENIZER, limit).numpy().tolist()
    assert row == [*([4, 5] * 3)[: limit - 1], 3]


def test_no_rows_are_a_matrix_too() -> None:
    assert source_token_ids(tf.constant([], tf.string), TOKENIZER, 10).shape == (0, 0)
