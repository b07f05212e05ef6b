import numpy as np
from keras import ops

from keras_transformer.decoding.beam import flat_rows


def test_flat_rows() -> None:
    rows = flat_rows(ops.convert_to_tensor([[1, 0], [1, 1], [0, 1]], "int32"), 2)
    np.testing.assert_array_equal(ops.convert_to_numpy(rows), [1, 0, 3, 3, 4, 5])
