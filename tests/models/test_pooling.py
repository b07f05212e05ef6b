import re
from typing import Any

import keras
import numpy as np
import pytest

from helpers import array
from keras_transformer.models import Pooling

X = np.array([[[1, 2], [3, 5], [70, 80]], [[4, 8], [9, 9], [9, 9]], [[5, 5], [6, 6], [7, 7]]], "float32")
MASK = np.array([[1, 1, 0], [1, 0, 0], [0, 0, 0]])


@pytest.mark.parametrize("dtype", ["bool", "int32", "float32"])
def test_mean_over_tokens_only(dtype: str) -> None:
    pooled = Pooling("mean")(X, padding_mask=MASK.astype(dtype))
    np.testing.assert_allclose(array(pooled), [[2, 3.5], [4, 8], [0, 0]])


def test_mean_without_a_mask() -> None:
    np.testing.assert_allclose(array(Pooling()(X)), X.mean(axis=1), rtol=1e-6)


def test_what_stands_at_padding_never_counts() -> None:
    broken = np.where(MASK[:, :, None] > 0, X, np.nan).astype("float32")
    np.testing.assert_allclose(array(Pooling()(broken, padding_mask=MASK)), [[2, 3.5], [4, 8], [0, 0]])


def test_first() -> None:
    np.testing.assert_array_equal(array(Pooling("first")(X, padding_mask=MASK)), X[:, 0])


def test_long_sums_in_half_precision() -> None:
    x = np.full((1, 4099, 1), 17.0, "float32")  # their sum is above what float16 can hold
    pooled = Pooling(dtype="mixed_float16")(x)
    assert keras.backend.standardize_dtype(pooled.dtype) == "float16"
    np.testing.assert_array_equal(array(pooled), [[17.0]])


@pytest.mark.parametrize("mode", ["mean", "first"])
def test_config_and_shape(mode: str) -> None:
    layer = Pooling(mode, name="mine")
    assert Pooling.from_config(layer.get_config()).get_config() == layer.get_config()
    symbolic: Any = layer(keras.Input((None, 7)), padding_mask=keras.Input((None,), dtype="bool"))
    assert tuple(symbolic.shape) == (None, 7)


def test_unknown_mode() -> None:
    message = "`pooling` must be 'mean' or 'first'. Received: pooling='max'."
    with pytest.raises(ValueError, match=re.escape(message)):
        Pooling("max")


def test_a_mask_of_another_size() -> None:
    with pytest.raises(ValueError, match=re.escape("of shape (2, 1), source of shape (2, 4, 1).")):
        Pooling()(np.ones((2, 4, 1), "float32"), padding_mask=np.array([[1], [1]]))


def test_the_mask_of_an_embedding_is_read() -> None:
    embedding = keras.layers.Embedding(9, 3, mask_zero=True)
    padded, plain = embedding(np.array([[3, 4, 0, 0]])), embedding(np.array([[3, 4]]))
    np.testing.assert_allclose(array(Pooling()(padded)), array(Pooling()(plain)), atol=1e-6)
