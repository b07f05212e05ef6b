"""Answers with the moving average of the weights, which the optimizer keeps."""

import contextlib
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
from keras import ops


def apply_moving_average(model: keras.Model) -> None:
    """Replace the weights by their moving average, to use a checkpoint of a run with one.

    A checkpoint in the middle of a run holds the weights as they were, and the average in the optimizer.

    Args:
        model: compiled; one whose optimizer keeps no average is left alone, as is one not yet trained.
    """
    if _has_average(model.optimizer):
        model.optimizer.finalize_variable_values(model.trainable_weights)
        for weight in model.trainable_weights:
            # On JAX it would share the optimizer's memory, which a step of training or testing gives away.
            weight.assign(ops.copy(weight))


@contextlib.contextmanager
def moving_average(model: keras.Model) -> Iterator[None]:
    """Let a model answer with the moving average of its weights, and train on with the weights.

    The weights come back exactly, where `keras.callbacks.SwapEMAWeights` on TensorFlow swaps by adding
    and subtracting, and so rounds them.

    Args:
        model: see `apply_moving_average`.

    Yields:
        Nothing.

    Example:
        >>> model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
        >>> model.compile(keras.optimizers.SGD(use_ema=True), "mse")
        >>> with moving_average(model):
        ...     answers = model(keras.ops.ones((3, 1)))
    """
    if not _has_average(model.optimizer):
        yield
        return
    kept = _weights(model)
    try:
        apply_moving_average(model)
        yield
    finally:
        _assign(model, kept)


class EvaluateMovingAverage(keras.callbacks.Callback):
    """Lets `fit` and `evaluate` validate the moving average of the weights.

    So `val_loss` is that of the weights that `fit` leaves in the model, since Keras puts the average
    there at its end. Callbacks that keep or exchange weights know nothing of it: beside it
    `keras.callbacks.SwapEMAWeights` spoils the weights, and `EarlyStopping(restore_best_weights=True)`
    puts those of the best epoch back as they were trained. `training.fit` leaves the best epoch's average.
    """

    def __init__(self) -> None:
        super().__init__()
        self._kept: list[np.ndarray] | None = None

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Forget the weights of a validation that was interrupted: they are old."""
        self._kept = None

    def on_test_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Put the average into the model."""
        self._kept = _weights(self.model) if _has_average(self.model.optimizer) else None
        apply_moving_average(self.model)

    def on_test_end(self, logs: dict[str, Any] | None = None) -> None:
        """Put the weights back."""
        if self._kept is not None:
            _assign(self.model, self._kept)
        self._kept = None


def _weights(model: keras.Model) -> list[np.ndarray]:
    """Copy the weights: torch and NumPy would share the memory that is about to change."""
    return [ops.convert_to_numpy(variable).copy() for variable in model.trainable_weights]


def _assign(model: keras.Model, values: list[np.ndarray]) -> None:
    for variable, value in zip(model.trainable_weights, values, strict=True):
        variable.assign(value)


def _has_average(optimizer: Any) -> bool:
    """Say whether the optimizer keeps an average, and has begun to: before, it holds zeros."""
    inner = getattr(optimizer, "inner_optimizer", optimizer)  # in a `LossScaleOptimizer`
    return bool(getattr(inner, "use_ema", False)) and int(ops.convert_to_numpy(inner.iterations)) > 0
