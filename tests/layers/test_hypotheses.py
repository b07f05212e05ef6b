"""Heads and hypotheses change places and come back, by gathering as by transposing."""

import keras
import numpy as np
import pytest

from helpers import array
from keras_transformer.layers.cached_attention import Hypotheses

B, H, K = 2, 3, 5


@pytest.mark.parametrize("number", [1, 4])
@pytest.mark.parametrize("gathered", [True, False])
def test_there_and_back(number: int, gathered: bool) -> None:
    hypotheses = Hypotheses.of(number, B, H) if gathered else Hypotheses(number, (), ())
    heads = np.arange(B * number * H * K, dtype="float32").reshape(B * number, 1, H, K)
    moved = hypotheses.of_each_head(keras.ops.convert_to_tensor(heads))
    expected = heads.reshape(B, number, H, K).transpose(0, 2, 1, 3)
    np.testing.assert_array_equal(array(moved), expected)
    np.testing.assert_array_equal(array(hypotheses.of_each_source(moved)), heads)
