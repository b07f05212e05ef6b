import re
from typing import Any

import keras
import numpy as np
import pytest

from helpers import array, draw
from keras_transformer.layers import MultiHeadAttention, RotaryEmbedding


def reference(heads: Any, start: int = 0, max_wavelength: float = 10000.0) -> Any:
    """RoFormer, equation 15, as products of complex numbers in float64."""
    half = heads.shape[-1] // 2
    pairs = heads[..., :half].astype("complex128") + 1j * heads[..., half:]
    rates = max_wavelength ** (-np.arange(half) / half)
    positions = np.arange(start, start + heads.shape[1])
    turned = pairs * np.exp(1j * positions[:, None] * rates)[None, :, None, :]
    return np.concatenate([turned.real, turned.imag], axis=-1)


@pytest.mark.parametrize("start", [0, 3, 100_003])
@pytest.mark.parametrize("width", [2, 6, 14])
def test_against_the_paper(width: int, start: int, close: Any) -> None:
    heads = draw(2, 5, 3, width)
    close(array(RotaryEmbedding()(heads, start=start)), reference(heads, start), 1e-5)


def test_a_quarter_turn_by_hand() -> None:
    heads = np.array([3.0, 4.0], "float32").reshape(1, 1, 1, 2)
    turned = array(RotaryEmbedding()(np.repeat(heads, 2, axis=1)))
    np.testing.assert_allclose(turned[0, 0, 0], [3, 4], atol=1e-6)
    c, s = np.cos(1), np.sin(1)
    np.testing.assert_allclose(turned[0, 1, 0], [3 * c - 4 * s, 4 * c + 3 * s], atol=1e-6)


def test_products_depend_on_the_distance_alone() -> None:
    query, key = draw(1, 1, 1, 8), draw(1, 1, 1, 8, seed=1)

    def product(query_position: int, key_position: int) -> float:
        rotary = RotaryEmbedding()
        turned = rotary(query, start=query_position), rotary(key, start=key_position)
        return float(np.sum(array(turned[0]) * array(turned[1])))

    assert product(5, 2) == pytest.approx(product(903, 900), abs=1e-5)
    assert product(5, 2) != pytest.approx(product(5, 3), abs=1e-2)


def test_layer() -> None:
    heads = draw(2, 5, 3, 4)
    layer = RotaryEmbedding(max_wavelength=50.0)
    np.testing.assert_allclose(array(layer(heads, start=2)), reference(heads, 2, 50.0), atol=1e-5)


def test_a_keras_mask_is_passed_on() -> None:
    vectors = keras.layers.Embedding(10, 8, mask_zero=True)(np.array([[1, 2, 0]]))
    assert array(RotaryEmbedding()(vectors)._keras_mask).tolist() == [[True, True, False]]


def test_attention_sees_the_order_but_not_the_place() -> None:
    attention = MultiHeadAttention(2, 4, positions="rotary")
    x = draw(1, 5, 7)
    attention(x, x)
    reversed_x = x[:, ::-1].copy()
    output = array(attention(x, x))
    assert np.abs(array(attention(reversed_x, reversed_x))[:, ::-1] - output).max() > 1e-3
    # Everything is 40 positions further on, behind others that may not be attended to.
    moved, mask = np.concatenate([draw(1, 40, 7, seed=2), x], axis=1), np.arange(45)[None] >= 40
    np.testing.assert_allclose(array(attention(moved, moved, padding_mask=mask))[:, 40:], output, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision(dtype: str) -> None:
    heads = keras.ops.cast(draw(1, 5, 2, 8), dtype)
    turned = RotaryEmbedding(dtype=dtype)(heads, start=3000)
    assert keras.backend.standardize_dtype(turned.dtype) == dtype
    exact = reference(array(keras.ops.cast(heads, "float32")), 3000)
    np.testing.assert_allclose(array(keras.ops.cast(turned, "float32")), exact, rtol=2**-8, atol=1e-3)


def test_errors() -> None:
    with pytest.raises(ValueError, match=re.escape("an even width. Received: shape=(1, 2, 1, 5).")):
        RotaryEmbedding()(draw(1, 2, 1, 5))
    with pytest.raises(ValueError, match=re.escape("Received: max_wavelength=0.")):
        RotaryEmbedding(max_wavelength=0)


def test_integers_are_numbers() -> None:
    heads = np.arange(8).reshape(1, 2, 1, 4)
    received, expected = (array(RotaryEmbedding()(x)) for x in (heads, heads.astype("float32")))
    np.testing.assert_allclose(received, expected)


def test_vectors_of_one_head_have_no_axis_for_it() -> None:
    x = draw(2, 5, 4)
    expected = array(RotaryEmbedding()(x[:, :, None, :]))[:, :, 0, :]
    np.testing.assert_array_equal(array(RotaryEmbedding()(x)), expected)
    with pytest.raises(ValueError, match=r"\(b, t, h, k\) or \(b, t, k\)"):
        RotaryEmbedding()(x[0])


def test_a_scaled_layer_turns_half_as_far() -> None:
    x, halved = draw(2, 5, 3, 4), RotaryEmbedding(scaling_factor=2.0)
    even = array(halved(np.repeat(x, 2, axis=1)))[:, ::2]
    np.testing.assert_allclose(even, array(RotaryEmbedding()(x)), atol=1e-6)
