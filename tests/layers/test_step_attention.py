"""One position of several hypotheses, against the pure function of the paper."""

import keras
import numpy as np
import pytest
from keras import ops

from helpers import array
from keras_transformer.layers import dot_product_attention
from keras_transformer.layers.cached_attention import hide_unless, step_attention

B, H, K, V, M = 2, 6, 5, 7, 11


@pytest.mark.parametrize("beam_size", [1, 3])
@pytest.mark.parametrize("groups", [6, 2, 1])
def test_it_is_attention(beam_size: int, groups: int) -> None:
    rng = np.random.default_rng(beam_size + groups)
    query = rng.normal(size=(B, H, beam_size, K)).astype("float32")
    keys = rng.normal(size=(B, groups, M, K)).astype("float32")
    values = rng.normal(size=(B, groups, M, V)).astype("float32")
    mask = rng.random(size=(B, 1, beam_size, M)) < 0.6
    mask[..., 0] = True
    tensors = map(ops.convert_to_tensor, (query, keys, values))
    output, weights = step_attention(*tensors, hide_unless(mask))
    expected, scores = dot_product_attention(
        query.transpose(0, 2, 1, 3), keys.transpose(0, 2, 1, 3), values.transpose(0, 2, 1, 3), mask
    )
    np.testing.assert_allclose(array(output).transpose(0, 2, 1, 3), array(expected), atol=1e-5)
    np.testing.assert_allclose(array(weights), array(scores), atol=1e-6)


def test_without_a_bias_everything_is_seen() -> None:
    values = np.arange(4, dtype="float32").reshape(1, 1, 4, 1)
    output, _ = step_attention(ops.zeros((1, 1, 1, 3)), ops.ones((1, 1, 4, 3)), ops.convert_to_tensor(values))
    assert float(array(output)[0, 0, 0, 0]) == pytest.approx(1.5)


def test_what_is_hidden_counts_nothing() -> None:
    bias = array(hide_unless(np.array([True, False])))
    assert bias[0] == 0
    assert np.float32(1e4) + bias[1] == bias[1], "it must absorb every logit"


def test_what_hides_is_float32_whatever_keras_computes_in() -> None:
    before = keras.config.floatx()
    keras.config.set_floatx("float64")
    try:
        hidden = hide_unless(keras.ops.convert_to_tensor([True, False]))
    finally:
        keras.config.set_floatx(before)
    assert keras.backend.standardize_dtype(hidden.dtype) == "float32"
