import re

import keras
import numpy as np
import pytest

from keras_transformer.layers.normalization import make_normalization

X = np.array([[[3.0, 4.0, -1.0]]], "float32")


def normalized(kind: str, epsilon: float = 1e-6) -> np.ndarray:
    layer = make_normalization(kind, epsilon=epsilon, dtype="float32", name="norm")
    return keras.ops.convert_to_numpy(layer(X))


def test_layer_normalization() -> None:
    np.testing.assert_allclose(normalized("layer"), (X - 2) / np.sqrt(14 / 3), atol=1e-5)


def test_rms_normalization() -> None:
    np.testing.assert_allclose(normalized("rms"), X / np.sqrt(26 / 3), atol=1e-5)


def test_epsilon() -> None:
    np.testing.assert_allclose(normalized("layer", 3.0), (X - 2) / np.sqrt(14 / 3 + 3), atol=1e-5)


def test_unknown_kind() -> None:
    message = "`normalization` must be one of 'layer', 'rms'. Received: normalization='batch'."
    with pytest.raises(ValueError, match=re.escape(message)):
        make_normalization("batch", epsilon=1e-6, dtype="float32", name="norm")


def kernel_gradient(layer: keras.layers.Layer, inputs: np.ndarray, upstream: np.ndarray) -> list[np.ndarray]:
    """Take one step of descent on `sum(layer(dense(inputs)) * upstream)`, and give what the weights lost."""
    model = keras.Sequential([keras.Input(inputs.shape[1:]), keras.layers.Dense(5, name="dense"), layer])
    keras.utils.set_random_seed(0)
    model.set_weights([np.random.default_rng(2).normal(size=w.shape) for w in model.get_weights()])
    before = model.get_weights()
    model.compile(keras.optimizers.SGD(1.0), lambda labels, outputs: keras.ops.sum(outputs * labels))
    model.train_on_batch(inputs, upstream)
    return [old - new for old, new in zip(before, model.get_weights(), strict=True)]


def test_training_gives_the_gradients_of_keras() -> None:
    inputs = np.random.default_rng(0).normal(size=(3, 4, 5)).astype("float32")
    upstream = np.random.default_rng(1).normal(size=(3, 4, 5)).astype("float32")
    ours = make_normalization("layer", epsilon=1e-3, dtype="float32", name="norm")
    steps = kernel_gradient(ours, inputs, upstream)
    expected = kernel_gradient(keras.layers.LayerNormalization(epsilon=1e-3), inputs, upstream)
    for step, wanted in zip(steps, expected, strict=True):
        np.testing.assert_allclose(step, wanted, atol=2e-5)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "mixed_bfloat16"])
def test_training_gives_what_inference_gives(dtype: str) -> None:
    layer = make_normalization("layer", epsilon=1e-6, dtype=dtype, name="norm")
    inputs = keras.ops.cast(np.random.default_rng(0).normal(size=(2, 3, 8)), layer.compute_dtype)
    trained, plain = (layer(inputs, training=training) for training in (True, False))
    assert trained.dtype == plain.dtype
    as_floats = [keras.ops.convert_to_numpy(keras.ops.cast(x, "float32")) for x in (trained, plain)]
    np.testing.assert_allclose(*as_floats, atol=1e-6 if dtype == "float32" else 0.02)
