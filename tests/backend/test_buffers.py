from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from helpers import array
from keras_transformer.backend import make_buffer, write_rows, written_in_place

tensorflow_only = pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="TensorFlow's operation")


def test_write_rows_leaves_the_buffer() -> None:
    buffer = make_buffer((4, 3), "float32")
    written = write_rows(buffer, ops.convert_to_tensor([2, 0]), ops.ones((2, 3)))
    np.testing.assert_array_equal(array(written), [[1] * 3, [0] * 3, [1] * 3, [0] * 3])
    assert not array(buffer).any()


@tensorflow_only
def test_a_loop_writes_in_place() -> None:
    """Two buffers of one size stay two: equal operations of a graph are merged."""
    import tensorflow as tf

    def fill(count: Any) -> Any:
        with written_in_place():
            first, second = (make_buffer((count, 2), "float32") for _ in range(2))

            def body(i: Any, first: Any, second: Any) -> Any:
                rows = ops.cast(ops.ones((1, 2), "int32") * (i + 1), "float32")
                index = ops.reshape(i, (1,))
                return i + 1, write_rows(first, index, rows), write_rows(second, index, -rows)

            return ops.while_loop(lambda i, *_: i < count, body, (0, first, second))[1:]

    graph = tf.function(fill, input_signature=[tf.TensorSpec([], tf.int32)], autograph=False)
    first, second = graph(tf.constant(5))
    np.testing.assert_array_equal(array(first)[:, 0], [1, 2, 3, 4, 5])
    np.testing.assert_array_equal(array(second)[:, 0], [-1, -2, -3, -4, -5])
    loops = graph.get_concrete_function().graph.as_graph_def().library.function
    assert any(node.op == "InplaceUpdate" for function in loops for node in function.node_def)


def test_outside_nothing_is_in_place() -> None:
    with written_in_place():
        pass
    buffer = make_buffer((1, 1), "float32")
    write_rows(buffer, ops.convert_to_tensor([0]), ops.ones((1, 1)))
    assert not array(buffer).any()
