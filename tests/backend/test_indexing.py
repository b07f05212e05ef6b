"""Rows and largest numbers are those of the plain operations."""

import keras
import numpy as np
import pytest
from keras import ops

from helpers import array
from keras_transformer._backend import assign_rows, gather, largest


def test_rows_of_a_matrix() -> None:
    matrix = np.arange(6, dtype="float32").reshape(3, 2)
    np.testing.assert_array_equal(array(gather(matrix, np.array([[2, 0]]))), [[[4, 5], [0, 1]]])


def test_entries_of_each_row() -> None:
    order = np.array([[2, 0], [1, 1]])
    scores = np.arange(6, dtype="float32").reshape(2, 3)
    np.testing.assert_array_equal(array(gather(scores, order, batch_dims=1)), [[2, 0], [4, 4]])
    ids = np.stack([scores, -scores], axis=-1)
    expected = [[[2, -2], [0, 0]], [[4, -4], [4, -4]]]
    np.testing.assert_array_equal(array(gather(ids, order, batch_dims=1)), expected)


def test_the_first_of_equal_ones_is_the_largest() -> None:
    values = np.array([[1, 3, 3], [-2, -4, -3], [-1e30, -1e30, -1e30], [-0.0, 0.0, -1]], "float32")
    found, indices = largest(ops.convert_to_tensor(values))
    assert keras.backend.standardize_dtype(indices.dtype) == "int32"
    np.testing.assert_array_equal(array(indices)[:3], [[1], [0], [0]])
    np.testing.assert_array_equal(array(found), values.max(-1, keepdims=True))
    assert array(indices)[3, 0] in (0, 1)  # zeros of both signs: as the backend has it


@pytest.mark.parametrize("width", [7, 2048, 3000, 2503, 8000])  # the first is searched without blocks
@pytest.mark.parametrize("num", [1, 7])
@pytest.mark.parametrize("distinct", [3, 10**6])
def test_top_k_is_that_of_a_stable_sort(width: int, num: int, distinct: int) -> None:
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
    found, indices = largest(ops.convert_to_tensor(values), 5)
    np.testing.assert_array_equal(array(found), [[0.0] * 5, [1.0] * 5])
    np.testing.assert_array_equal(array(indices), [range(5), range(7, 12)])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_rows_are_assigned_in_blocks_of_uneven_sizes(dtype: str) -> None:
    # 16 MiB hold 16 rows of this width.
    values = np.random.default_rng(0).normal(size=(37, 2**18)).astype("float32")
    variable = keras.Variable(keras.ops.zeros(values.shape, dtype))
    read = ops.copy(variable.value)
    blocks: list[tuple[int, int]] = []

    def rows(block: slice) -> np.ndarray:
        blocks.append((block.start, block.stop))
        return values[block]

    assign_rows(variable, rows)
    assert blocks == [(0, 16), (16, 32), (32, 37)]
    np.testing.assert_array_equal(array(variable), array(ops.cast(values, dtype)))
    assert not array(read).any()
