"""Two replicas on two halves of a batch do what one does on the whole."""

import os
import subprocess
import sys

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.backend import sum_over_replicas

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
