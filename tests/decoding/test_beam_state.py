import numpy as np
from keras import ops

from keras_transformer.decoding.beam_state import flat_rows, take_rows


def test_take_rows() -> None:
    order = np.array([[2, 0], [1, 1]])
    scores = np.arange(6, dtype="float32").reshape(2, 3)
    np.testing.assert_array_equal(ops.convert_to_numpy(take_rows(scores, order)), [[2, 0], [4, 4]])
    ids = np.stack([scores, -scores], axis=-1)
    expected = [[[2, -2], [0, 0]], [[4, -4], [4, -4]]]
    np.testing.assert_array_equal(ops.convert_to_numpy(take_rows(ids, order)), expected)


def test_flat_rows() -> None:
    rows = flat_rows(ops.convert_to_tensor([[1, 0], [1, 1], [0, 1]], "int32"), 2)
    np.testing.assert_array_equal(ops.convert_to_numpy(rows), [1, 0, 3, 3, 4, 5])
