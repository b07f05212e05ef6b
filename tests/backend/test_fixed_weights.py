from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.backend import fixed_weights


class Model:
    """One variable."""

    def __init__(self) -> None:
        self.weight = keras.Variable([2.0, 3.0])
        self.weights = [self.weight]


def test_values_are_those_of_the_variables() -> None:
    model = Model()
    with fixed_weights(model):
        inside = ops.convert_to_numpy(ops.multiply(model.weight, 2.0))
    np.testing.assert_array_equal(inside, [4.0, 6.0])
    model.weight.assign([5.0, 7.0])
    with fixed_weights(model):
        np.testing.assert_array_equal(ops.convert_to_numpy(ops.add(model.weight, 0.0)), [5.0, 7.0])


def test_what_has_no_variables_is_left_alone() -> None:
    variable = keras.Variable(1.0)
    with fixed_weights(object()):
        variable.assign(2.0)
    assert float(ops.convert_to_numpy(variable)) == 2.0


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="reads of TensorFlow's variables")
def test_a_loop_reads_a_variable_once() -> None:
    import tensorflow as tf

    model = Model()

    def total(count: Any) -> Any:
        with fixed_weights(model):
            return ops.while_loop(
                lambda i, _: i < count, lambda i, x: (i + 1, x + ops.sum(model.weight)), (0, 0.0)
            )[1]

    graph = tf.function(total, input_signature=[tf.TensorSpec([], tf.int32)]).get_concrete_function()
    assert float(graph(tf.constant(3))) == 15.0
    loops = [
        function
        for function in graph.graph.as_graph_def().library.function
        if "body" in function.signature.name
    ]
    assert loops
    assert not any(node.op == "ReadVariableOp" for function in loops for node in function.node_def)
