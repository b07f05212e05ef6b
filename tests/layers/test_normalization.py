from typing import Any

import keras
import numpy as np
import pytest

from keras_transformer.layers.normalization import _make_normalization

X = np.array([[[3.0, 4.0, -1.0]]], "float32")


def normalized(kind: str, epsilon: float = 1e-6) -> np.ndarray:
    layer = _make_normalization(kind, epsilon=epsilon, dtype="float32", name="norm")
    return keras.ops.convert_to_numpy(layer(X))


def test_layer_normalization() -> None:
    np.testing.assert_allclose(normalized("layer"), (X - 2) / np.sqrt(14 / 3), atol=1e-5)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="the layer is Keras's elsewhere")
@pytest.mark.parametrize("training", [False, True])
def test_float64_keeps_its_digits(training: bool) -> None:
    layer = _make_normalization("layer", epsilon=1e-6, dtype="float64", name="norm")
    inputs = np.random.default_rng(0).normal(size=(2, 3, 5))
    deviations = np.sqrt(inputs.var(-1, keepdims=True) + 1e-6)
    outputs = keras.ops.convert_to_numpy(layer(inputs, training=training))
    np.testing.assert_allclose(outputs, (inputs - inputs.mean(-1, keepdims=True)) / deviations, atol=1e-13)


def test_rms_normalization() -> None:
    np.testing.assert_allclose(normalized("rms"), X / np.sqrt(26 / 3), atol=1e-5)


def test_epsilon() -> None:
    np.testing.assert_allclose(normalized("layer", 3.0), (X - 2) / np.sqrt(14 / 3 + 3), atol=1e-5)


def gradients(layer: keras.layers.Layer, inputs: np.ndarray, upstream: np.ndarray) -> list[np.ndarray]:
    """Differentiate `sum(layer(dense(inputs)) * upstream)` by the weights of both."""
    import tensorflow as tf

    model = keras.Sequential([keras.Input(inputs.shape[1:]), keras.layers.Dense(5, name="dense"), layer])
    model.set_weights([np.random.default_rng(2).normal(size=w.shape) for w in model.get_weights()])

    # A step of training would not do: TensorFlow may update `gamma` before it is read for the last time.
    @tf.function
    def differentiate() -> list[Any]:
        with tf.GradientTape() as tape:
            total = tf.reduce_sum(model(inputs, training=True) * upstream)
        return tape.gradient(total, [weight.value for weight in model.trainable_variables])

    return [gradient.numpy() for gradient in differentiate()]


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="the layer is Keras's elsewhere")
def test_training_gives_the_gradients_of_keras() -> None:
    inputs = np.random.default_rng(0).normal(size=(3, 4, 5)).astype("float32")
    upstream = np.random.default_rng(1).normal(size=(3, 4, 5)).astype("float32")
    ours = _make_normalization("layer", epsilon=1e-3, dtype="float32", name="norm")
    computed = gradients(ours, inputs, upstream)
    expected = gradients(keras.layers.LayerNormalization(epsilon=1e-3), inputs, upstream)
    for gradient, wanted in zip(computed, expected, strict=True):
        np.testing.assert_allclose(gradient, wanted, atol=2e-5)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "mixed_bfloat16"])
def test_training_gives_what_inference_gives(dtype: str) -> None:
    layer = _make_normalization("layer", epsilon=1e-6, dtype=dtype, name="norm")
    inputs = keras.ops.cast(np.random.default_rng(0).normal(size=(2, 3, 8)), layer.compute_dtype)
    trained, plain = (layer(inputs, training=training) for training in (True, False))
    assert trained.dtype == plain.dtype
    as_floats = [keras.ops.convert_to_numpy(keras.ops.cast(x, "float32")) for x in (trained, plain)]
    np.testing.assert_allclose(*as_floats, atol=1e-6 if dtype == "float32" else 0.02)
