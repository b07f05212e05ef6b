import keras
import numpy as np
from keras import ops

from helpers import array
from keras_transformer.backend import first_largest, take_each, take_rows


def test_rows_of_a_matrix() -> None:
    matrix = np.arange(6, dtype="float32").reshape(3, 2)
    np.testing.assert_array_equal(array(take_rows(matrix, np.array([[2, 0]]))), [[[4, 5], [0, 1]]])


def test_entries_of_each_row() -> None:
    order = np.array([[2, 0], [1, 1]])
    scores = np.arange(6, dtype="float32").reshape(2, 3)
    np.testing.assert_array_equal(array(take_each(scores, order)), [[2, 0], [4, 4]])
    ids = np.stack([scores, -scores], axis=-1)
    expected = [[[2, -2], [0, 0]], [[4, -4], [4, -4]]]
    np.testing.assert_array_equal(array(take_each(ids, order)), expected)


def test_the_first_of_equal_ones_is_the_largest() -> None:
    values = np.array([[1, 3, 3], [-2, -4, -3], [-1e30, -1e30, -1e30], [-0.0, 0.0, -1]], "float32")
    indices = first_largest(ops.convert_to_tensor(values))
    assert keras.backend.standardize_dtype(indices.dtype) == "int32"
    np.testing.assert_array_equal(array(indices)[:3], [[1], [0], [0]])
    assert array(indices)[3, 0] in (0, 1)  # zeros of both signs: as the backend has it
