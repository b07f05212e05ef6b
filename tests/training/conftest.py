"""A model in milliseconds, and epochs of it that are saved."""

from collections.abc import Callable

import keras
import pytest

from keras_transformer.training import Checkpoint


@pytest.fixture
def model() -> keras.Model:
    """A dense layer from two numbers to one, compiled."""
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile(optimizer=keras.optimizers.Adam(0.01), loss="mse")
    # Keras warns where it reads an optimizer that never ran.
    model.optimizer.build(model.trainable_variables)
    return model


@pytest.fixture
def run_epochs() -> Callable[..., None]:
    """Save an epoch for each value of `val_loss`."""

    def run(checkpoint: Checkpoint, model: keras.Model, values: list[float]) -> None:
        checkpoint.set_model(model)
        for epoch, value in enumerate(values, checkpoint.epoch):
            checkpoint.on_epoch_end(epoch, {"loss": 2 * value, "val_loss": value})

    return run
