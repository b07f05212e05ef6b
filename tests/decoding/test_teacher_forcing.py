"""Targets, shifted by one."""

import keras
import numpy as np
import pytest

from keras_transformer.decoding.scoring import teacher_forcing


def test_the_target_is_shifted() -> None:
    inputs, target_ids = teacher_forcing([[5, 3]], [[2, 7, 3, 0]])
    assert set(inputs) == {"encoder_token_ids", "decoder_token_ids"}
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(inputs["decoder_token_ids"]), [[2, 7, 3]])
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(target_ids), [[7, 3, 0]])


def test_features_go_with_their_mask() -> None:
    features = np.zeros((1, 2, 3), "float32")
    assert set(teacher_forcing(features, [[2, 3]]).inputs) == {"encoder_features", "decoder_token_ids"}
    inputs = teacher_forcing(features, [[2, 3]], np.array([[1, 0]])).inputs
    np.testing.assert_array_equal(inputs["encoder_padding_mask"], [[1, 0]])


def test_a_target_without_tokens_is_refused() -> None:
    with pytest.raises(ValueError, match=r"start token and at least one more\. Received: shape=\(1, 1\)\."):
        teacher_forcing([[5, 3]], [[2]])


def test_a_target_of_another_rank_is_refused() -> None:
    with pytest.raises(ValueError, match=r"Received: shape=\(3,\)\."):
        teacher_forcing([[5, 3]], [2, 4, 3])


def test_a_target_that_is_no_integer_is_refused() -> None:
    with pytest.raises(TypeError, match=r"`decoder_token_ids` must be integers\. Received: dtype=.*float32"):
        teacher_forcing([[5, 3]], np.ones((1, 3), "float32"))
