"""Compiled functions give what the plain ones give, and know that XLA compiles them."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer._backend import PositionBuffer, compile_function


@pytest.mark.parametrize("shape", [(2, 3), (5, 3), (1, 7)])
def test_a_compiled_function_takes_every_size(shape: tuple[int, int]) -> None:
    compiled = compile_function(lambda x: (ops.sum(x, axis=1), x * 2))
    values = np.arange(np.prod(shape), dtype="int32").reshape(shape)
    sums, doubled = compiled(ops.convert_to_tensor(values))
    np.testing.assert_allclose(ops.convert_to_numpy(sums), values.sum(1))
    np.testing.assert_allclose(ops.convert_to_numpy(doubled), values * 2)


def test_variables_that_change_are_seen() -> None:
    variable = keras.Variable(2, trainable=False, dtype="int32")
    compiled = compile_function(lambda x: x * variable, [variable])
    for factor in (2, 3):
        variable.assign(factor)
        result = compiled(ops.convert_to_tensor([[5, 7]], "int32"))
        np.testing.assert_array_equal(ops.convert_to_numpy(result), [[5 * factor, 7 * factor]])


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="counts traces of TensorFlow")
def test_sizes_that_change_are_not_traced_again() -> None:
    traces = []

    def double(x: object) -> object:
        traces.append(x)
        return ops.multiply(x, 2)

    compiled = compile_function(double)
    for size in range(1, 9):
        compiled(ops.ones((size, 10 - size), "int32"))
    assert len(traces) == 1


def test_several_inputs_have_sizes_of_their_own() -> None:
    compiled = compile_function(lambda x, y: ops.sum(x) + ops.sum(y), inputs=[((None, None), "int32")] * 2)
    for sizes in ((2, 3), (5, 1)):
        first, second = (ops.ones((2, size), "int32") for size in sizes)
        assert int(compiled(first, second)) == 2 * sum(sizes)


def test_buffers_of_a_known_size_do_not_grow() -> None:
    assert not PositionBuffer.may_grow(3)
    assert PositionBuffer.may_grow(ops.convert_to_tensor(3)) == (keras.backend.backend() != "jax")


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="a graph of TensorFlow")
@pytest.mark.parametrize("jit_compile", [True, False])
def test_a_graph_for_xla_is_told_from_a_plain_one(jit_compile: bool) -> None:
    import tensorflow as tf

    found = []

    @tf.function(jit_compile=jit_compile)
    def graph(x: tf.Tensor) -> tf.Tensor:
        found.append(PositionBuffer.may_grow(x))

        def body(y: tf.Tensor) -> list[tf.Tensor]:
            found.append(PositionBuffer.may_grow(y))
            return [y + 1]

        return tf.while_loop(lambda y: y < 3, body, [x])[0]

    graph.get_concrete_function(tf.constant(0))
    assert set(found) == {not jit_compile}
