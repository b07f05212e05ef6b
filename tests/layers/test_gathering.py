import numpy as np
from keras import ops

from keras_transformer.layers.gathering import take_each, take_rows

array = ops.convert_to_numpy


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
