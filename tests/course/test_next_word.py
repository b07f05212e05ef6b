"""The next word of a model that is just a function."""

from typing import Any

import keras
import numpy as np

from helpers import array
from keras_transformer import course

SOURCE = np.array([[4, 2, 0], [3, 3, 3]])


def test_the_most_likely_word_behind_the_last_one() -> None:
    calls: list[Any] = []

    def model(*args: Any) -> Any:
        calls.append(args)
        return np.eye(5, dtype="float32")[[[1, 2], [3, 4]]], {}  # certain of 2 and 4 behind the last word

    words = course.next_word(model, SOURCE, np.array([[1, 4], [1, 3]]))
    assert keras.backend.standardize_dtype(words.dtype) == "int32"
    np.testing.assert_array_equal(array(words), [[2], [4]])
    [(source, output, training, enc_padding_mask, look_ahead_mask, dec_padding_mask)] = calls
    assert training is False
    np.testing.assert_array_equal(array(source), SOURCE)
    np.testing.assert_array_equal(array(output), [[1, 4], [1, 3]])
    for mask in (enc_padding_mask, dec_padding_mask):
        np.testing.assert_array_equal(array(mask), [[[1, 1, 0]], [[1, 1, 1]]])
    np.testing.assert_array_equal(array(look_ahead_mask), [[[1, 0], [1, 1]]])


def test_with_the_model_of_the_course() -> None:
    model = course.Transformer(1, 7, 2, 11, 5, 13, 8, 6)
    output = np.array([[1, 4]])
    padding, look_ahead = np.array([[[1, 1, 0]]]), np.tril(np.ones((1, 2, 2)))
    probabilities, _ = model(SOURCE[:1], output, False, padding, look_ahead, padding)
    word = course.next_word(model, SOURCE[:1], output)
    assert array(word).tolist() == [[int(np.argmax(array(probabilities)[0, -1]))]]
