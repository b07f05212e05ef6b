"""Validation and answers with the moving average of the weights, which the optimizer keeps."""

import contextlib
from collections.abc import Iterator

import keras
import numpy as np
from keras import ops


def _apply_moving_average(model: keras.Model) -> None:
    """Replace the weights by their moving average, if the optimizer keeps one."""
    if _has_average(model.optimizer):
        model.optimizer.finalize_variable_values(model.trainable_weights)
        for weight in model.trainable_weights:
            # On JAX it would share the optimizer's memory, which a step of training or testing gives away.
            weight.assign(ops.copy(weight))


@contextlib.contextmanager
def moving_average(model: keras.Model) -> Iterator[None]:
    """Let a model answer with the moving average of its weights, and train on with the weights.

    Args:
        model: Compiled. Nothing changes if its optimizer keeps no average, or has made no update yet.

    Yields:
        None.

    Example:
        >>> model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
        >>> model.compile(keras.optimizers.SGD(use_ema=True), "mse")
        >>> with moving_average(model):
        ...     answers = model(keras.ops.ones((3, 1)))
    """
    kept = _swap_in(model)
    try:
        yield
    finally:
        _assign(model, kept)


class _EvaluateMovingAverage(keras.callbacks.Callback):
    """Lets `fit` validate the moving average of the weights, which it leaves in the model at its end."""

    def on_train_begin(self, logs: dict[str, float] | None = None) -> None:
        self._kept: list[np.ndarray] = []  # those of an interrupted validation are old

    def on_test_begin(self, logs: dict[str, float] | None = None) -> None:
        self._kept = _swap_in(self.model)

    def on_test_end(self, logs: dict[str, float] | None = None) -> None:
        _assign(self.model, self._kept)
        self._kept = []


def _swap_in(model: keras.Model) -> list[np.ndarray]:
    """Put the average into a model and return its weights; an empty list if there is no average."""
    if not _has_average(model.optimizer):
        return []
    # Kept whole, where `keras.callbacks.SwapEMAWeights` on TensorFlow swaps by adding and subtracting, and so
    # rounds the weights. Copied, since torch and NumPy would share the memory that is about to change.
    kept = [ops.convert_to_numpy(weight).copy() for weight in model.trainable_weights]
    _apply_moving_average(model)
    return kept


def _assign(model: keras.Model, values: list[np.ndarray]) -> None:
    for weight, value in zip(model.trainable_weights, values, strict=bool(values)):
        weight.assign(value)


def _has_average(optimizer: keras.optimizers.Optimizer) -> bool:
    """Return whether an optimizer keeps an average and has begun to: before, it holds zeros."""
    inner = getattr(optimizer, "inner_optimizer", optimizer)  # in a `LossScaleOptimizer`
    return bool(getattr(inner, "use_ema", False)) and int(ops.convert_to_numpy(inner.iterations)) > 0
