"""The average that the optimizer keeps: where it is seen, and that the weights come back."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.training import fit, load_model, moving_average

X, Y = np.linspace(0, 1, 14).reshape(7, 2).astype("float32"), np.ones((7, 1), "float32")
MOMENTUM = 0.5


def make_model(optimizer: Any = None) -> keras.Model:
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile(optimizer or keras.optimizers.SGD(0.1, use_ema=True, ema_momentum=MOMENTUM), "mse")
    return model


def weights(model: keras.Model) -> np.ndarray:
    return np.concatenate([np.array(weight).ravel() for weight in model.get_weights()])


def train(model: keras.Model, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Train, and give the weights and their average as the formula has it."""
    average: Any = None
    for _ in range(steps):
        model.train_on_batch(X, Y)
        average = weights(model) if average is None else MOMENTUM * average + (1 - MOMENTUM) * weights(model)
    return weights(model), average


def test_inside_is_the_average_and_outside_the_weights() -> None:
    model = make_model()
    trained, average = train(model, 3)
    assert np.abs(trained - average).max() > 1e-3
    with moving_average(model):
        np.testing.assert_allclose(weights(model), average, rtol=1e-5)
    np.testing.assert_array_equal(weights(model), trained)
    model.train_on_batch(X, Y)  # the optimizer goes on with the weights
    assert np.abs(weights(model) - trained).max() > 0


def test_the_weights_come_back_after_an_error() -> None:
    model = make_model()
    trained, _ = train(model, 2)

    def fail() -> None:
        with moving_average(model):
            raise RuntimeError("decoding failed")

    with pytest.raises(RuntimeError, match="decoding failed"):
        fail()
    np.testing.assert_array_equal(weights(model), trained)


def test_an_untrained_model_is_left_alone() -> None:
    model = make_model()
    before = weights(model)
    with moving_average(model):
        np.testing.assert_array_equal(weights(model), before)


def test_an_optimizer_without_an_average_is_left_alone() -> None:
    model = make_model(keras.optimizers.SGD(0.1))
    model.train_on_batch(X, Y)
    before = weights(model)
    with moving_average(model):
        np.testing.assert_array_equal(weights(model), before)


def test_the_average_behind_loss_scaling() -> None:
    inner = keras.optimizers.SGD(0.1, use_ema=True, ema_momentum=MOMENTUM)
    model = make_model(keras.optimizers.LossScaleOptimizer(inner))
    _, average = train(model, 3)
    with moving_average(model):
        np.testing.assert_allclose(weights(model), average, rtol=1e-4)


def test_a_checkpoint_holds_both(tmp_path: Path) -> None:
    model = make_model()
    trained, average = train(model, 3)
    model.save(tmp_path / "model.keras")
    loaded = load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(weights(loaded), trained)
    with moving_average(loaded):
        np.testing.assert_allclose(weights(loaded), average, rtol=1e-5)


def test_fit_validates_the_average_and_ends_with_it(tmp_path: Path) -> None:
    model = make_model()
    seen: list[np.ndarray] = []
    collect = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: seen.append(weights(model)))
    dataset = tf.data.Dataset.from_tensors((X, Y))
    options: dict[str, Any] = {"epochs": 2, "verbose": 0, "callbacks": [collect]}
    checkpoint = fit(model, dataset, dataset, directory=tmp_path, **options)
    reference = make_model()
    trained, average = train(reference, 2)
    np.testing.assert_allclose(seen[-1], trained, rtol=1e-5)
    np.testing.assert_allclose(weights(model), average, rtol=1e-5)
    expected = model.evaluate(X, Y, verbose=0)
    assert checkpoint.best_epoch == 2
    assert checkpoint.history["val_loss"][-1] == pytest.approx(expected, rel=1e-5)
