"""Tensors are handed on once others are there, as they are."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.backend import after


def test_numbers_and_none_stay() -> None:
    first, second = after([ops.ones(2)], [ops.arange(3), None])
    np.testing.assert_array_equal(ops.convert_to_numpy(first), [0, 1, 2])
    assert second is None


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="the other backends order by value alone")
def test_a_graph_waits() -> None:
    import tensorflow as tf

    @tf.function
    def read_before_written(variable: tf.Variable) -> tf.Tensor:
        value = variable.read_value()
        (increment,) = after([value], [tf.constant(1.0)])
        assert value.op in increment.op.control_inputs
        return value + increment

    assert float(read_before_written(tf.Variable(3.0))) == 4.0
