"""The blocks find what sorting everything finds."""

import numpy as np
import pytest
from keras import ops

from helpers import array
from keras_transformer.backend import largest, top_k


@pytest.mark.parametrize("width", [7, 2048, 3000, 2503, 8000])
@pytest.mark.parametrize("num", [1, 7])
@pytest.mark.parametrize("distinct", [3, 10**6])
def test_it_is_top_k(width: int, num: int, distinct: int) -> None:
    rng = np.random.default_rng(width)
    values = rng.integers(-distinct, distinct, size=(5, width)).astype("float32")  # few numbers: many ties
    values[2] = -1e30
    order = np.argsort(-values, axis=1, kind="stable")[:, :num]
    found, indices = largest(ops.convert_to_tensor(values), num)
    np.testing.assert_array_equal(array(found), np.take_along_axis(values, order, axis=1))
    np.testing.assert_array_equal(array(indices), order)


def test_of_equal_numbers_the_first_come_first() -> None:
    values = np.zeros((2, 300), "float32")
    values[1, 7:] = 1.0
    found, indices = top_k(ops.convert_to_tensor(values), 5)
    np.testing.assert_array_equal(array(found), [[0.0] * 5, [1.0] * 5])
    np.testing.assert_array_equal(array(indices), [range(5), range(7, 12)])
