"""Gradients of a loss: entries at labels, the order of operations, and sums over replicas."""

import os
import subprocess
import sys
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer._backend import add_at_labels, order_after, sum_over_replicas
from keras_transformer.training import MaskedCrossentropy

RNG = np.random.default_rng(11)
LABELS = RNG.integers(0, 5, (2, 3, 1)).astype("int32")
VALUES = RNG.normal(size=(2, 3, 1)).astype("float32")
DENSE = RNG.normal(size=(2, 3, 5)).astype("float32")


def expected() -> np.ndarray:
    return DENSE + VALUES * (np.arange(5) == LABELS)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_each_token_gets_its_number_at_its_label(dtype: str) -> None:
    dense, values = (ops.cast(ops.convert_to_tensor(x) * 1.0, dtype) for x in (DENSE, VALUES))
    outputs = add_at_labels(dense, ops.convert_to_tensor(LABELS), values)
    assert keras.backend.standardize_dtype(outputs.dtype) == dtype
    tolerance = 1e-6 if dtype == "float32" else 5e-2
    np.testing.assert_allclose(ops.convert_to_numpy(ops.cast(outputs, "float32")), expected(), atol=tolerance)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="only TensorFlow does it in place")
@pytest.mark.parametrize("jit_compile", [False, True])
def test_graphs_and_their_gradients(jit_compile: bool) -> None:
    import tensorflow as tf

    @tf.function(jit_compile=jit_compile)
    def summed_and_gradients(dense: Any, values: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([dense, values])
            outputs = add_at_labels(dense * 3.0, tf.constant(LABELS), values)
            total = tf.reduce_sum(outputs * tf.constant(DENSE))
        return outputs, tape.gradient(total, [dense, values])

    outputs, (of_dense, of_values) = summed_and_gradients(tf.constant(DENSE), tf.constant(VALUES))
    np.testing.assert_allclose(outputs, expected() + 2 * DENSE, atol=1e-6)
    np.testing.assert_allclose(of_dense, 3 * DENSE, atol=1e-6)
    np.testing.assert_allclose(of_values, np.take_along_axis(DENSE, LABELS, axis=-1), atol=1e-6)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="the other backends copy")
def test_the_loss_leaves_the_logits_and_can_be_differentiated_twice() -> None:
    import tensorflow as tf

    logits, labels = tf.constant(DENSE), tf.constant(LABELS[..., 0])
    loss = MaskedCrossentropy(0.1, pad_id=-100)
    with tf.GradientTape() as outer:
        outer.watch(logits)
        with tf.GradientTape() as inner:
            inner.watch(logits)
            value = loss(labels, logits)
        gradient = inner.gradient(value, logits)
        norm = tf.reduce_sum(gradient**2)
    second = outer.gradient(norm, logits).numpy()
    np.testing.assert_array_equal(logits.numpy(), DENSE)
    step = 1e-2
    for index in [(0, 0, 0), (1, 2, 4)]:
        norms = []
        for sign in (1, -1):
            moved = DENSE.copy()
            moved[index] += sign * step
            with tf.GradientTape() as tape:
                tape.watch(moved_logits := tf.constant(moved))
                value = loss(labels, moved_logits)
            norms.append(float(tf.reduce_sum(tape.gradient(value, moved_logits) ** 2)))
        assert second[index] == pytest.approx((norms[0] - norms[1]) / (2 * step), abs=1e-4)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="the other backends copy")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
def test_two_gradients_of_one_loss_in_one_graph_do_not_share_their_memory(
    dtype: str, label_smoothing: float
) -> None:
    import tensorflow as tf

    loss, labels = MaskedCrossentropy(label_smoothing, pad_id=-100), tf.constant(LABELS[..., 0])

    @tf.function
    def twice(logits: Any) -> Any:
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(logits)
            value = loss(labels, logits)
        return tape.gradient(value, logits), tape.gradient(value, logits)

    logits = tf.cast(DENSE, dtype)
    with tf.GradientTape() as tape:
        tape.watch(logits)
        value = loss(labels, logits)
    alone = tape.gradient(value, logits)
    for gradient in twice(logits):
        np.testing.assert_allclose(
            tf.cast(gradient, "float32"), tf.cast(alone, "float32"), rtol=1e-2, atol=1e-6
        )


def test_numbers_and_none_stay() -> None:
    first, second = order_after([ops.arange(3), None], others=[ops.ones(2)])
    np.testing.assert_array_equal(ops.convert_to_numpy(first), [0, 1, 2])
    assert second is None


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="the other backends order by value alone")
def test_a_graph_waits() -> None:
    import tensorflow as tf

    @tf.function
    def read_before_written(variable: tf.Variable) -> tf.Tensor:
        value = variable.read_value()
        (increment,) = order_after([tf.constant(1.0)], others=[value])
        assert value.op in increment.op.control_inputs
        return value + increment

    assert float(read_before_written(tf.Variable(3.0))) == 4.0


# In a process of its own, since the devices of TensorFlow are chosen before it is used.
COMPARE = """
import contextlib
import tensorflow as tf
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
import keras
import numpy as np
from keras_transformer.training import MaskedCrossentropy

# The first half has 7 real tokens, the other 2.
labels = np.array([[5, 2, 6, 3], [1, 3, 4, 0], [4, 0, 0, 0], [6, 0, 0, 0]], "int32")

def train(strategy):
    with strategy.scope() if strategy else contextlib.nullcontext():
        keras.utils.set_random_seed(0)
        model = keras.Sequential([keras.Input((4,), dtype="int32"), keras.layers.Embedding(7, 7)])
        model.compile(keras.optimizers.SGD(1.0), MaskedCrossentropy(0.1), jit_compile=False)
    data = tf.data.Dataset.from_tensors((labels, labels)).unbatch().batch(4)
    loss = model.fit(data, verbose=0).history["loss"][0]
    return loss, model.get_weights()[0]

one = train(None)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
assert strategy.num_replicas_in_sync == 2
two = train(strategy)
np.testing.assert_allclose(two[0], one[0], rtol=1e-5)
np.testing.assert_allclose(two[1], one[1], atol=1e-6)
"""


def test_one_replica_has_its_own_number() -> None:
    assert float(sum_over_replicas(ops.convert_to_tensor(3.0))) == 3.0


@pytest.mark.slow
@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="the replicas are TensorFlow's")
def test_two_replicas_train_as_one() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "KERAS_BACKEND": "tensorflow"}
    result = subprocess.run(
        [sys.executable, "-c", COMPARE], env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr[-2000:]


def test_numbers_in_a_graph() -> None:
    class Doubled(keras.layers.Layer):
        def call(self, x: np.ndarray) -> np.ndarray:
            return sum_over_replicas(ops.sum(x))[None] * 2

    model = keras.Sequential([keras.Input((2,), batch_size=1), Doubled()])
    assert float(model.predict(np.array([[1.0, 2.0]]), verbose=0)[0]) == 6.0
