"""A decoding loop: weights that are read once, and buffers written by position."""

from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from helpers import array, draw
from keras_transformer._backend import PositionBuffer, snapshot_weights

B, N, H, K, T = 2, 3, 5, 7, 4


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("position", [0, 3])
def test_a_position_is_written_and_the_old_buffer_left(position: int, dtype: str) -> None:
    buffer, heads = PositionBuffer.make((B, H, T * N, K), dtype), ops.cast(draw(B, N, H, K), dtype)
    written = PositionBuffer.write(buffer, heads, PositionBuffer.slots(position, buffer, N))
    expected = np.zeros((B, H, T * N, K), "float32")
    expected[:, :, position * N : position * N + N] = array(ops.cast(heads, "float32")).transpose(0, 2, 1, 3)
    np.testing.assert_array_equal(array(ops.cast(written, "float32")), expected)
    assert not array(ops.cast(buffer, "float32")).any()


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="TensorFlow's operation")
@pytest.mark.parametrize("in_place", [False, True])
def test_a_loop_may_write_in_place(in_place: bool) -> None:
    """Two buffers of one size stay two: equal operations of a graph are merged."""
    import tensorflow as tf

    def fill(count: Any) -> Any:
        first, second = (PositionBuffer.make((1, 1, count, 2), "float32") for _ in range(2))

        def body(i: Any, first: Any, second: Any) -> Any:
            heads = ops.cast(ops.ones((1, 1, 1, 2), "int32") * (i + 1), "float32")
            slots = PositionBuffer.slots(i, first, 1)
            written = PositionBuffer.write(first, heads, slots, in_place=in_place)
            return i + 1, written, PositionBuffer.write(second, -heads, slots, in_place=in_place)

        return ops.while_loop(lambda i, *_: i < count, body, (0, first, second))[1:]

    graph = tf.function(fill, input_signature=[tf.TensorSpec([], tf.int32)], autograph=False)
    first, second = graph(tf.constant(5))
    np.testing.assert_array_equal(array(first)[0, 0, :, 0], [1, 2, 3, 4, 5])
    np.testing.assert_array_equal(array(second)[0, 0, :, 0], [-1, -2, -3, -4, -5])
    functions = graph.get_concrete_function().graph.as_graph_def().library.function
    found = any(node.op == "InplaceUpdate" for function in functions for node in function.node_def)
    assert found == in_place


def scale() -> Any:
    layer = keras.layers.Dense(1, use_bias=False)
    layer.build((None, 2))
    layer.set_weights([np.array([[2.0], [3.0]])])
    return layer


def test_the_value_of_a_weight_stays_when_the_weight_changes() -> None:
    layer = scale()
    values = snapshot_weights(layer, None)
    layer.set_weights([np.array([[5.0], [7.0]])])
    with keras.StatelessScope(values):
        np.testing.assert_array_equal(array(layer(np.eye(2))), [[2.0], [3.0]])
    np.testing.assert_array_equal(array(layer(np.eye(2))), [[5.0], [7.0]])


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="reads of TensorFlow's variables")
def test_a_loop_reads_a_weight_once() -> None:
    import tensorflow as tf

    layer = scale()

    def total(count: Any) -> Any:
        [(_, value)] = snapshot_weights(layer)
        return ops.while_loop(lambda i, _: i < count, lambda i, x: (i + 1, x + ops.sum(value)), (0, 0.0))[1]

    graph = tf.function(total, input_signature=[tf.TensorSpec([], tf.int32)]).get_concrete_function()
    assert float(graph(tf.constant(3))) == 15.0
    functions = graph.graph.as_graph_def().library.function
    loops = [function for function in functions if "body" in function.signature.name]
    assert loops
    assert not any(node.op == "ReadVariableOp" for function in loops for node in function.node_def)
