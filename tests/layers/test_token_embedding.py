import re
from typing import Any

import keras
import numpy as np
import pytest

from keras_transformer.layers import TokenEmbedding

array = keras.ops.convert_to_numpy


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8"])
def test_vectors_are_rows_scaled_by_the_root_of_the_width(dtype: str) -> None:
    layer, token_ids = TokenEmbedding(11, 16), np.array([[1, 10, 0], [3, 3, 1]], dtype)
    vectors = array(layer(token_ids))
    np.testing.assert_allclose(vectors, array(layer.embeddings)[token_ids] * 4.0, rtol=1e-6)


def test_vectors_start_with_deviation_one() -> None:
    layer = TokenEmbedding(997, 61)
    vectors = array(layer(np.arange(997)[None]))
    assert abs(vectors.std() - 1) < 0.02
    assert abs(vectors.mean()) < 0.02


@pytest.mark.parametrize("dtype", ["mixed_float16", "mixed_bfloat16"])
def test_half_precision(dtype: str) -> None:
    layer = TokenEmbedding(11, 7, dtype=dtype)
    vectors = layer(np.array([[1, 2]]))
    assert keras.backend.standardize_dtype(layer.embeddings.dtype) == "float32"
    assert keras.backend.standardize_dtype(vectors.dtype) == dtype.removeprefix("mixed_")


@pytest.mark.parametrize("sizes", [{"vocabulary_size": 0}, {"hidden_dim": -1}])
def test_sizes_not_above_zero(sizes: dict[str, Any]) -> None:
    [(name, value)] = sizes.items()
    with pytest.raises(ValueError, match=re.escape(f"must be above zero. Received: {name}={value}.")):
        TokenEmbedding(**{"vocabulary_size": 11, "hidden_dim": 7, **sizes})
