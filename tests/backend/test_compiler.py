"""Whether XLA compiles what is traced now."""

import keras
import pytest

from keras_transformer.backend import in_compiler


def test_each_backend_outside_of_a_graph() -> None:
    backend = keras.backend.backend()
    assert in_compiler() == (backend == "jax")


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="a graph of TensorFlow")
@pytest.mark.parametrize("jit_compile", [True, False])
def test_a_graph_for_xla_is_told_from_a_plain_one(jit_compile: bool) -> None:
    import tensorflow as tf

    found = []

    @tf.function(jit_compile=jit_compile)
    def graph(x: tf.Tensor) -> tf.Tensor:
        found.append(in_compiler())

        def body(y: tf.Tensor) -> list[tf.Tensor]:
            found.append(in_compiler())
            return [y + 1]

        return tf.while_loop(lambda y: y < 3, body, [x])[0]

    graph.get_concrete_function(tf.constant(0))
    assert set(found) == {jit_compile}
